CREATE INDEX friend_both ON friend(account, friend);
CREATE INDEX friend_reverse ON friend(friend, account);
CREATE INDEX city_account ON city(account, city);
CREATE INDEX product_product ON product(product);
CREATE INDEX offer_product ON offer(product);
CREATE INDEX likes_product ON likes(product, account);
CREATE INDEX likes_account ON likes(account, product);
CREATE INDEX likes_t ON likes(t);
CREATE INDEX purchase_product ON purchase(product, account);
CREATE INDEX purchase_t ON purchase(t);
CREATE INDEX review_product ON review(product);
CREATE INDEX review_t ON review(t)
