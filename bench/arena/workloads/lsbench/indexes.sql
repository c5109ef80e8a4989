CREATE INDEX account_person ON account(person, account);
CREATE INDEX knows_both ON knows(account, friend);
CREATE INDEX knows_friend ON knows(friend, account);
CREATE INDEX subscriber_both ON subscriber(account, channel);
CREATE INDEX post_id ON post(id);
CREATE INDEX post_creator ON post(creator, tag);
CREATE INDEX post_t ON post(t);
CREATE INDEX photo_tag_photo ON photo_tag(photo);
CREATE INDEX photo_tag_t ON photo_tag(t);
CREATE INDEX likes_item ON likes(item);
CREATE INDEX likes_t ON likes(t)
