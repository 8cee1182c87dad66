import { addressOf } from "../../../static/shared/page_link.js";
import { cases } from "./cases.js";

const of = (field, value) => addressOf(field, value, "example.com");

cases("addressOf", of, [
  [["pathname", "/pricing"], "https://example.com/pricing"],
  [["entry_page", "/"], "https://example.com/"],
  [["exit_page", "/a b?c#d"], "https://example.com/a%20b%3Fc%23d"],
  [["pathname", "//evil.example/x"], "https://example.com//evil.example/x"],
  [["pathname", "/\\evil.example"], "https://example.com//evil.example"],
  [["pathname", "(other)"], null],
  [["pathname", ""], null],
  [["referrer", "news.ycombinator.com"], "https://news.ycombinator.com/"],
  [["referrer", "android-app://com.example"], null],
  [["referrer", "localhost"], null],
  [["referrer", "example.com/path"], null],
  [["referrer", ""], null],
  [["utm_source", "example.com"], null],
]);
