"""Statements that give a database something that Tally does not make, by the words with which it is reported."""

FOREIGN = {
    "has a trigger": "create trigger undo after update of password_hash on person"
    " begin update person set password_hash = old.password_hash where number = new.number; end",
    "has a view": "create view v as select * from account",
    "the table 'more' is not part of Tally": "create table more (a)",
    "the table 'more_content' is not part of Tally": "create virtual table more using fts5(a)",
    "the index 'more' is not part of Tally": "create index more on account (name)",
    "the table account is another": "alter table account add column more text",
    "the index rollup_state_unfinished is missing": "drop index rollup_state_unfinished",
    "the table share_link is missing": "drop table share_link",
}
