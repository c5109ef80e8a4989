CREATE INDEX account_person ON account(person, account);
CREATE INDEX knows_both ON knows(account, friend);
CREATE INDEX knows_friend ON knows(friend, account);
CREATE INDEX subscriber_both ON subscriber(account, channel);
CREATE INDEX post_id ON post(id);
CREATE INDEX post_creator ON post(creator, tag);
CREATE INDEX post_t ON post(t);
CREATE INDEX photo_tag_photo ON photo_tag(photo);
CREATE INDEX photo_tag_tagged ON photo_tag(tagged);
CREATE INDEX photo_tag_t ON photo_tag(t);
CREATE INDEX likes_item ON likes(item);
CREATE INDEX likes_t ON likes(t);
CREATE INDEX photo_id ON photo(id);
CREATE INDEX photo_t ON photo(t);
CREATE INDEX place_account ON place(account);
CREATE INDEX place_t ON place(t)
