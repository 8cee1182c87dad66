import assert from "node:assert/strict";
import { test } from "node:test";
import { readableHost, readablePath, uLabel } from "../../../static/shared/readable.js";
import { cases } from "./cases.js";

/** Returns a text as the URL parser writes it, as the server stores it. */
function storedPath(text) {
  const { pathname } = new URL(`https://example.com${text.replace(/[?#^]/g, encodeURIComponent)}`);
  return pathname.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
}

// [stored, shown]
const PATHS = [
  ["/", "/"],
  ["/pricing", "/pricing"],
  ["/%D8%B3%D9%84%D8%A7%D9%85", "/سلام"],
  ["/%D7%A9%D7%9C%D7%95%D7%9D/%E4%B8%AD%E6%96%87", "/שלום/中文"],
  ["/%C3%BCber-uns/caf%C3%A9", "/über-uns/café"],
  ["/%F0%9F%98%80/%F0%9F%91%8D%F0%9F%8F%BD", "/😀/👍🏽"],
  // Sequences of emoji, and joiners in the middle of a word.
  ["/%F0%9F%91%A9%E2%80%8D%F0%9F%92%BB/%E2%9D%A4%EF%B8%8F", "/👩\u200d💻/❤\ufe0f"],
  ["/%D9%85%DB%8C%E2%80%8C%D8%AE%D9%88%D8%A7%D9%87%D9%85", "/می\u200cخواهم"],
  ["/%E0%A4%95%E0%A5%8D%E2%80%8D%E0%A4%B7", "/क्\u200dष"],
  ["/a%E2%80%8Cb/%E2%80%8D", "/a%E2%80%8Cb/%E2%80%8D"],
  ["/a%EF%B8%8F", "/a%EF%B8%8F"],
  // Both forms of é, which are different pages.
  ["/e%CC%81", "/e\u0301"],
  ["/%CC%81", "/%CC%81"],
  // What the URL parser encodes anyway.
  ["/%d8%b3%3f", "/س?"],
  ["/order%20details%3F%20%22a%22%20%3C%3E%60%7B%7D%5E%23", '/order details? "a" <>`{}^#'],
  ["/%20a/b%20/c%20%20d", "/%20a/b%20/c%20%20d"],
  // Reserved characters: decoded, they would be another path.
  ["/a%2Fb%3Bc%25%26%5C", "/a%2Fb%3Bc%25%26%5C"],
  // Bytes that are not UTF-8, and what is no escape.
  ["/caf%E9/%C3", "/caf%E9/%C3"],
  ["/%C0%AF/%ED%A0%80/%F8%88%80%80%80/%F4%90%80%80", "/%C0%AF/%ED%A0%80/%F8%88%80%80%80/%F4%90%80%80"],
  ["/%80%D8%B3%FF", "/%80س%FF"],
  ["/100%/%zz/%D8%B3", "/100%/%zz/س"],
  // Controls, directions, and invisible characters.
  ["/%00%1F%7F%C2%85", "/%00%1F%7F%C2%85"],
  ["/%E2%80%AEgpj.%E2%81%A6x%E2%80%8E%D8%9C", "/%E2%80%AEgpj.%E2%81%A6x%E2%80%8E%D8%9C"],
  ["/a%C2%A0b%E2%80%83c%E3%80%80d", "/a%C2%A0b%E2%80%83c%E3%80%80d"],
  ["/%C2%AD%E2%80%8B%EF%BB%BF%E3%85%A4%E2%A0%80", "/%C2%AD%E2%80%8B%EF%BB%BF%E3%85%A4%E2%A0%80"],
  ["/%EE%80%80%F3%A0%81%81%EF%BF%BF", "/%EE%80%80%F3%A0%81%81%EF%BF%BF"],
  // Look like a slash or a percent sign.
  ["/a%E2%88%95b%EF%BC%8Fc%EF%BC%85d", "/a%E2%88%95b%EF%BC%8Fc%EF%BC%85d"],
];

cases(
  "readablePath",
  readablePath,
  PATHS.map(([stored, shown]) => [[stored], shown]),
);

test("what is shown and typed again is the same path", () => {
  for (const [stored, shown] of PATHS) assert.equal(storedPath(shown), storedPath(stored));
});

test("any path, shown and typed again, is the same path", () => {
  let seed = 36;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  const pieces = ["/", "a", "%D8%B3", "%E9", "%20", "%25", "%2F", "%3F", "%E2%80%8C", "%E2%80%AE", "%F0%9F%98%80"];
  pieces.push("%CC%81", "%", "%C3%A9", "%EF%B8%8F", "%E2%80%8D", "%5E", "~", "%C2%A0");
  for (let n = 0; n < 5000; n += 1) {
    const path = `/${Array.from({ length: random(9) }, () => pieces[random(pieces.length)]).join("")}x`;
    assert.equal(storedPath(readablePath(path)), storedPath(path), path);
    assert.equal(readablePath(readablePath(path)), readablePath(path), path);
  }
});

test("a text that was never encoded shows nothing doubtful either", () => {
  assert.equal(readablePath("/\u202egpj\u200b"), "/%E2%80%AEgpj%E2%80%8B");
});

cases("readableHost", readableHost, [
  [["example.com"], "example.com"],
  [["xn--bcher-kva.example"], "bücher.example"],
  [["shop.xn--bcher-kva.example"], "shop.bücher.example"],
  [[".xn--bcher-kva."], ".bücher."],
  [["*.xn--bcher-kva.example"], "*.bücher.example"],
  [["xn--fa-hia.de"], "faß.de"],
  [["xn--e1afmkfd.xn--p1ai"], "пример.рф"],
  [["xn--80aesfpebagmfblc0a.xn--p1ai"], "стопкоронавирус.рф"],
  [["xn--mgbh0fb.xn--kgbechtv"], "مثال.إختبار"],
  [["xn--6dbbec0c.xn--deba0ad"], "דוגמה.טעסט"],
  [["xn--wgv71a.jp"], "日本.jp"],
  [["xn--fsqu00a.xn--0zwm56d"], "例子.测试"],
  [["xn--9n2bp8q.xn--9t4b11yi5a"], "실례.테스트"],
  [["xn--r8jz45g.xn--zckzah"], "例え.テスト"],
  [["xn--nxasmm1c.com"], "βόλος.com"],
  // Whole labels that look like Latin ones, and scripts that are mixed.
  [["xn--80ak6aa92e.com"], "xn--80ak6aa92e.com"],
  [["xn--pypal-4ve.com"], "xn--pypal-4ve.com"],
  [["xn--ggle-0nda.com"], "xn--ggle-0nda.com"],
  [["xn--bcher-kva.xn--80ak6aa92e.com"], "xn--bcher-kva.xn--80ak6aa92e.com"],
  // Letters that are easily mistaken, symbols, invisible characters, strokes beside Latin letters.
  [["xn--googl-r51b.com"], "xn--googl-r51b.com"],
  [["xn--gthub-n4a.com"], "xn--gthub-n4a.com"],
  [["xn--i-7iq.ws"], "xn--i-7iq.ws"],
  [["xn--e28h.example"], "xn--e28h.example"],
  [["xn--comfoo-kx4e.jp"], "xn--comfoo-kx4e.jp"],
  // No valid names: upper case inside, not composed, no Punycode, an ASCII name in disguise, directions mixed.
  [["xn--Bcher-Kva.example"], "xn--Bcher-Kva.example"],
  [["xn--bucher-exf.example"], "xn--bucher-exf.example"],
  [["xn--zzzzzz99999.example"], "xn--zzzzzz99999.example"],
  [["xn--abc-.example"], "xn--abc-.example"],
  [["xn--"], "xn--"],
  [["xn--99999999.example"], "xn--99999999.example"],
]);

// RFC 3492, 7.1.
cases("uLabel", uLabel, [
  [["egbpdaj6bu4bxfgehfvwxn"], "ليهمابتكلموشعربي؟"],
  [["ihqwcrb4cv8a8dqg056pqjye"], "他们为什么不说中文"],
  [["ihqwctvzc91f659drss3x8bo0yb"], "他們爲什麽不說中文"],
  [["Proprostnemluvesky-uyb24dma41a"], "Pročprostěnemluvíčesky"],
  [["4dbcagdahymbxekheh6e0a7fei0b"], "למההםפשוטלאמדבריםעברית"],
  [["b1abfaaepdrnnbgefbadotcwatmq2g4l"], "почемужеонинеговорятпорусски"],
  [["PorqunopuedensimplementehablarenEspaol-fmd56a"], "PorquénopuedensimplementehablarenEspañol"],
  [["3B-ww4c5e180e575a65lsy2b"], "3年B組金八先生"],
  [["-with-SUPER-MONKEYS-pc58ag80a8qai00g7n9n"], "安室奈美恵-with-SUPER-MONKEYS"],
  [["2-u9tlzr9756bt3uc0v"], "ひとつ屋根の下2"],
  [["MajiKoi5-783gue6qz075azm5e"], "MajiでKoiする5秒前"],
  [["de-jg4avhby1noc0d"], "パフィーdeルンバ"],
  [["d9juau41awczczp"], "そのスピードで"],
  [["-> $1.00 <--"], "-> $1.00 <-"],
]);
