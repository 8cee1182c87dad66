// Which icon of static/vendor a website, a browser or a system has: of simple-icons, or of bootstrap-icons for brands that
// simple-icons does not have, and for Safari, whose icon there takes a third of the bytes. Pure.
//
// After a change run deploy/refresh_icons.py, which copies the icons that are named here.

/**
 * The icons of bootstrap-icons and the colours of their brands, which that package does not have.
 *
 * @type {Record<string, string>}
 */
export const BOOTSTRAP_COLOURS = {
  amazon: "ff9900",
  bing: "258ffa",
  "browser-edge": "0078d7",
  "browser-safari": "006cff",
  linkedin: "0a66c2",
  microsoft: "5e5e5e",
  openai: "412991",
  slack: "4a154b",
};

/**
 * Icons of hosts and their subdomains; `.*` stands for a country: google.de, google.co.uk.
 *
 * @type {Record<string, string>}
 */
const HOSTS = {
  amazon: "amazon.*",
  bing: "bing.com",
  linkedin: "linkedin.com lnkd.in",
  microsoft: "microsoft.com microsoftonline.com live.com office.com outlook.com msn.com sharepoint.com",
  openai: "chatgpt.com openai.com",
  slack: "slack.com",
  google: "google.*",
  duckduckgo: "duckduckgo.com",
  baidu: "baidu.com",
  ecosia: "ecosia.org",
  brave: "search.brave.com brave.com",
  qwant: "qwant.com",
  startpage: "startpage.com",
  kagi: "kagi.com",
  naver: "naver.com",
  searxng: "searx.be",
  wolfram: "wolframalpha.com",
  facebook: "facebook.com fb.com fb.me",
  messenger: "messenger.com",
  instagram: "instagram.com",
  meta: "meta.com meta.ai",
  whatsapp: "whatsapp.com wa.me",
  threads: "threads.net threads.com",
  x: "x.com twitter.com t.co",
  reddit: "reddit.com redd.it",
  youtube: "youtube.com youtu.be",
  tiktok: "tiktok.com",
  pinterest: "pinterest.* pin.it",
  telegram: "telegram.org telegram.me t.me",
  discord: "discord.com discord.gg",
  mastodon: "mastodon.social mastodon.online mstdn.social fosstodon.org hachyderm.io",
  bluesky: "bsky.app",
  snapchat: "snapchat.com",
  vk: "vk.com vk.ru",
  odnoklassniki: "ok.ru",
  sinaweibo: "weibo.com weibo.cn",
  wechat: "weixin.qq.com wechat.com",
  qq: "qq.com",
  douban: "douban.com",
  zhihu: "zhihu.com",
  bilibili: "bilibili.com",
  xiaohongshu: "xiaohongshu.com",
  line: "line.me",
  kakaotalk: "kakao.com kakaocorp.com",
  xing: "xing.com",
  tumblr: "tumblr.com",
  quora: "quora.com",
  flickr: "flickr.com",
  meetup: "meetup.com",
  nextdoor: "nextdoor.com",
  lemmy: "lemmy.world lemmy.ml",
  signal: "signal.org",
  matrix: "matrix.org",
  viber: "viber.com",
  github: "github.com gist.github.com",
  gitlab: "gitlab.com",
  bitbucket: "bitbucket.org",
  codeberg: "codeberg.org",
  sourceforge: "sourceforge.net",
  stackoverflow: "stackoverflow.com",
  stackexchange: "stackexchange.com",
  superuser: "superuser.com",
  serverfault: "serverfault.com",
  ycombinator: "news.ycombinator.com ycombinator.com",
  lobsters: "lobste.rs",
  producthunt: "producthunt.com",
  indiehackers: "indiehackers.com",
  hackernoon: "hackernoon.com",
  devdotto: "dev.to",
  hashnode: "hashnode.com",
  medium: "medium.com",
  substack: "substack.com",
  wordpress: "wordpress.com wordpress.org",
  blogger: "blogger.com blogspot.com",
  ghost: "ghost.org ghost.io",
  wix: "wix.com",
  squarespace: "squarespace.com",
  webflow: "webflow.com",
  npm: "npmjs.com",
  pypi: "pypi.org",
  rubygems: "rubygems.org",
  packagist: "packagist.org",
  nuget: "nuget.org",
  docker: "docker.com hub.docker.com",
  rust: "crates.io docs.rs rust-lang.org",
  python: "python.org docs.python.org",
  readthedocs: "readthedocs.io readthedocs.org",
  mdnwebdocs: "developer.mozilla.org",
  codesandbox: "codesandbox.io",
  stackblitz: "stackblitz.com",
  replit: "replit.com",
  kaggle: "kaggle.com",
  leetcode: "leetcode.com",
  freecodecamp: "freecodecamp.org",
  geeksforgeeks: "geeksforgeeks.org",
  w3schools: "w3schools.com",
  arxiv: "arxiv.org",
  researchgate: "researchgate.net",
  googlescholar: "scholar.google.com",
  wikipedia: "wikipedia.org",
  wikimediacommons: "commons.wikimedia.org",
  wikidata: "wikidata.org",
  fandom: "fandom.com",
  internetarchive: "archive.org",
  claude: "claude.ai",
  anthropic: "anthropic.com",
  perplexity: "perplexity.ai",
  googlegemini: "gemini.google.com bard.google.com",
  mistralai: "mistral.ai chat.mistral.ai",
  deepseek: "deepseek.com chat.deepseek.com",
  huggingface: "huggingface.co",
  poe: "poe.com",
  qwen: "qwen.ai chat.qwen.ai",
  gmail: "mail.google.com",
  protonmail: "proton.me mail.proton.me",
  maildotru: "mail.ru",
  zoho: "zoho.com",
  mailchimp: "mailchimp.com",
  feedly: "feedly.com",
  inoreader: "inoreader.com",
  flipboard: "flipboard.com",
  instapaper: "instapaper.com",
  rss: "rss.com",
  googlenews: "news.google.com",
  applenews: "apple.news",
  twitch: "twitch.tv",
  vimeo: "vimeo.com",
  dailymotion: "dailymotion.com",
  spotify: "spotify.com open.spotify.com",
  soundcloud: "soundcloud.com",
  applepodcasts: "podcasts.apple.com",
  applemusic: "music.apple.com",
  bandcamp: "bandcamp.com",
  netflix: "netflix.com",
  imdb: "imdb.com",
  rottentomatoes: "rottentomatoes.com",
  letterboxd: "letterboxd.com",
  goodreads: "goodreads.com",
  dribbble: "dribbble.com",
  behance: "behance.net",
  figma: "figma.com",
  unsplash: "unsplash.com",
  pexels: "pexels.com",
  deviantart: "deviantart.com",
  artstation: "artstation.com",
  "500px": "500px.com",
  notion: "notion.so notion.site",
  obsidian: "obsidian.md",
  trello: "trello.com",
  asana: "asana.com",
  jira: "atlassian.net",
  confluence: "confluence.com",
  linear: "linear.app",
  airtable: "airtable.com",
  zoom: "zoom.us",
  googledocs: "docs.google.com",
  googledrive: "drive.google.com",
  googlemaps: "maps.google.com",
  googletranslate: "translate.google.com",
  googlecalendar: "calendar.google.com",
  googlemeet: "meet.google.com",
  googleads: "googleads.g.doubleclick.net ads.google.com",
  googleplay: "play.google.com",
  appstore: "apps.apple.com",
  apple: "apple.com",
  icloud: "icloud.com",
  dropbox: "dropbox.com",
  evernote: "evernote.com",
  patreon: "patreon.com",
  kofi: "ko-fi.com",
  buymeacoffee: "buymeacoffee.com",
  kickstarter: "kickstarter.com",
  gofundme: "gofundme.com",
  opencollective: "opencollective.com",
  liberapay: "liberapay.com",
  paypal: "paypal.com",
  stripe: "stripe.com",
  shopify: "shopify.com myshopify.com",
  etsy: "etsy.com",
  ebay: "ebay.*",
  aliexpress: "aliexpress.com",
  target: "target.com",
  zalando: "zalando.*",
  ikea: "ikea.com",
  otto: "otto.de",
  mercadopago: "mercadopago.com",
  rakuten: "rakuten.com rakuten.co.jp",
  shopee: "shopee.*",
  tripadvisor: "tripadvisor.*",
  bookingdotcom: "booking.com",
  airbnb: "airbnb.*",
  expedia: "expedia.*",
  uber: "uber.com",
  lyft: "lyft.com",
  yelp: "yelp.*",
  trustpilot: "trustpilot.com",
  g2: "g2.com",
  glassdoor: "glassdoor.*",
  indeed: "indeed.com",
  upwork: "upwork.com",
  fiverr: "fiverr.com",
  freelancer: "freelancer.com",
  coursera: "coursera.org",
  udemy: "udemy.com",
  edx: "edx.org",
  khanacademy: "khanacademy.org",
  duolingo: "duolingo.com",
  codecademy: "codecademy.com",
  skillshare: "skillshare.com",
  steam: "steampowered.com store.steampowered.com steamcommunity.com",
  epicgames: "epicgames.com",
  itchdotio: "itch.io",
  gogdotcom: "gog.com",
  roblox: "roblox.com",
  chessdotcom: "chess.com",
  lichess: "lichess.org",
  cnn: "cnn.com",
  theguardian: "theguardian.com",
  newyorktimes: "nytimes.com",
  thewashingtonpost: "washingtonpost.com",
  nbc: "nbcnews.com",
  techcrunch: "techcrunch.com",
  arstechnica: "arstechnica.com",
  dazn: "dazn.com",
  cloudflare: "cloudflare.com",
  vercel: "vercel.com vercel.app",
  netlify: "netlify.com netlify.app",
  render: "render.com onrender.com",
  digitalocean: "digitalocean.com",
  fastly: "fastly.com",
  googlecloud: "cloud.google.com",
  linuxfoundation: "linuxfoundation.org",
  mozilla: "mozilla.org",
  debian: "debian.org",
  ubuntu: "ubuntu.com",
  archlinux: "archlinux.org",
  redhat: "redhat.com",
  jetbrains: "jetbrains.com",
  gitea: "gitea.com",
  forgejo: "forgejo.org",
  homeassistant: "home-assistant.io",
  jellyfin: "jellyfin.org",
  plex: "plex.tv",
  nextcloud: "nextcloud.com",
  immich: "immich.app",
  raspberrypi: "raspberrypi.com raspberrypi.org",
  arduino: "arduino.cc",
  nvidia: "nvidia.com",
  intel: "intel.com",
  amd: "amd.com",
  hubspot: "hubspot.com",
  intercom: "intercom.com",
  zendesk: "zendesk.com",
  zapier: "zapier.com",
  make: "make.com",
  n8n: "n8n.io",
  semrush: "semrush.com",
  hootsuite: "hootsuite.com",
  buffer: "buffer.com",
  linktree: "linktr.ee",
  bitly: "bit.ly",
  typeform: "typeform.com",
  calendly: "calendly.com",
  strava: "strava.com",
  garmin: "garmin.com",
  komoot: "komoot.*",
  openstreetmap: "openstreetmap.org",
  wattpad: "wattpad.com",
  pixelfed: "pixelfed.social",
  peertube: "peertube.tv",
};

/** @type {Record<string, string>} */
const BROWSERS = {
  Chrome: "googlechrome",
  Chromium: "googlechrome",
  "Android WebView": "android",
  "Android Browser": "android",
  Edge: "browser-edge",
  Safari: "browser-safari",
  Firefox: "firefoxbrowser",
  "Firefox Focus": "firefoxbrowser",
  Opera: "opera",
  "Opera GX": "operagx",
  "Opera Mini": "opera",
  Vivaldi: "vivaldi",
  Brave: "brave",
  DuckDuckGo: "duckduckgo",
  Ecosia: "ecosia",
  "Samsung Internet": "samsung",
  "Tor Browser": "torbrowser",
  LibreWolf: "librewolf",
  "Mi Browser": "xiaomi",
  "Huawei Browser": "huawei",
  WeChat: "wechat",
  Facebook: "facebook",
  Instagram: "instagram",
  TikTok: "tiktok",
  Snapchat: "snapchat",
  Pinterest: "pinterest",
  "Google App": "google",
  "PlayStation Browser": "playstation",
};

/** @type {Record<string, string>} */
const SYSTEMS = {
  macOS: "apple",
  iOS: "apple",
  iPadOS: "apple",
  tvOS: "appletv",
  watchOS: "apple",
  Android: "android",
  Linux: "linux",
  Ubuntu: "ubuntu",
  Debian: "debian",
  Fedora: "fedora",
  "Arch Linux": "archlinux",
  ChromeOS: "googlechrome",
  HarmonyOS: "harmonyos",
  KaiOS: "kaios",
  FreeBSD: "freebsd",
  OpenBSD: "openbsd",
  NetBSD: "netbsd",
  PlayStation: "playstation",
  Roku: "roku",
};

/** @type {Map<string, string>} */
const byHost = new Map();
for (const [icon, hosts] of Object.entries(HOSTS)) for (const host of hosts.split(" ")) byHost.set(host, icon);

// The country in google.de, google.co.uk, google.com.au; or another ending.
const ENDING = /\.(?:(?:com?|org)\.)?[a-z]{2,3}$/;

/**
 * Returns the icon of a host or of the domain it is below; null where there is none.
 *
 * @param {string} host
 * @returns {string | null}
 */
export function iconOfHost(host) {
  const name = host.toLowerCase();
  for (let rest = name; rest.includes("."); rest = rest.slice(rest.indexOf(".") + 1)) {
    const icon = byHost.get(rest);
    if (icon) return icon;
    const stem = rest.replace(ENDING, "");
    if (stem !== rest && !stem.includes(".") && byHost.has(`${stem}.*`)) return byHost.get(`${stem}.*`) || null;
  }
  return null;
}

/**
 * Returns the icon of a browser; null where there is none. A version may follow the name.
 *
 * @param {string} name
 */
export function iconOfBrowser(name) {
  return own(BROWSERS, name);
}

/**
 * Returns the icon of an operating system; null where there is none. A version may follow the name.
 *
 * @param {string} name
 */
export function iconOfSystem(name) {
  return own(SYSTEMS, name);
}

/**
 * @param {Record<string, string>} icons
 * @param {string} name
 */
function own(icons, name) {
  const bare = name.replace(/ [\d.]+.*$/, "");
  return Object.hasOwn(icons, bare) ? icons[bare] : null;
}

/** The icons of simple-icons that are named here. */
export const ICONS = [...new Set([HOSTS].flatMap(Object.keys).concat([BROWSERS, SYSTEMS].flatMap(Object.values)))]
  .filter((name) => !Object.hasOwn(BOOTSTRAP_COLOURS, name))
  .sort();
