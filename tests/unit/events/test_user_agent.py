# ruff: noqa: E501 (User-Agents are quoted whole, one a line)
"""tally/events/user_agent.py with real User-Agents; both engines of ua-parser must give the same results.

The rules are in docs/reference/collect-api.md, Dimensions and Origin (crawlers).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ua_parser import BasicResolver, RegexResolver
from ua_parser.core import Domain, PartialResult, Resolver

from scripts.refresh_lists import ADDED
from tally.events.crawlers import NAMES
from tally.events.user_agent import (
    CACHED,
    MAX_CHARACTERS,
    MAX_LABEL,
    Agents,
    browser_and_os_matchers,
    crawler_name,
    is_compiled,
)
from tests.support.app import ROOT
from tests.support.cases import cases
from tests.support.process import clean_environment

# fmt: off
# User-Agent, browser, os, os_version, device
PEOPLE = [
    # desktop
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 6.1; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.0.0 Safari/537.36", "Chrome", "Windows", "7", "desktop"),
    ("Mozilla/5.0 (Windows NT 6.2; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.0.0 Safari/537.36", "Chrome", "Windows", "8", "desktop"),
    ("Mozilla/5.0 (Windows NT 6.3; Win64; x64; rv:115.0) Gecko/20100101 Firefox/115.0", "Firefox", "Windows", "8.1", "desktop"),
    ("Mozilla/5.0 (Windows NT 6.0; rv:52.0) Gecko/20100101 Firefox/52.0", "Firefox", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 5.1; rv:52.0) Gecko/20100101 Firefox/52.0", "Firefox", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; AS; rv:11.0) like Gecko", "Internet Explorer", "Windows", "7", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", "Internet Explorer", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.102 Safari/537.36 Edge/18.19042", "Edge", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/124.0.0.0", "Opera", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/124.0.0.0 (Edition GX-CN)", "Opera", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Vivaldi/6.5.3206.39", "Vivaldi", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 YaBrowser/25.8.0.0 Safari/537.36", "Yandex Browser", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15", "Safari", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_6) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/14.1.2 Safari/605.1.15", "Safari", "macOS", "10.14.6", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.13; rv:115.0) Gecko/20100101 Firefox/115.0", "Firefox", "macOS", "10.13", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 11_6_1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/95.0.4638.69 Safari/537.36", "Chrome", "macOS", "11.6.1", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_16_0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/86.0.4240.80 Safari/537.36", "Chrome", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Safari/605.1.15 Ddg/17.6", "DuckDuckGo", "macOS", "", "desktop"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome", "Linux", "", "desktop"),
    ("Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox", "Linux", "", "desktop"),
    ("Mozilla/5.0 (X11; Fedora; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox", "Linux", "", "desktop"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.0 Safari/605.1.15 Epiphany/605.1.15", "Epiphany", "Linux", "", "desktop"),
    ("Mozilla/5.0 (X11; FreeBSD amd64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox", "FreeBSD", "", "desktop"),
    ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome", "ChromeOS", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Whale/3.24.223.18", "Whale", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36 Brave/119", "Brave", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.71 Safari/537.36 Core/1.94.200.400 QQBrowser/11.8.5120.400", "QQ Browser", "Windows", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Slack/4.38.121 Chrome/124.0.6367.207 Electron/30.0.6 Safari/537.36", "Electron", "Windows", "", "desktop"),
    ("Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0)", "Internet Explorer", "Windows", "8", "desktop"),
    ("Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; WOW64; Trident/5.0; SLCC2; .NET CLR 2.0.50727; Media Center PC 6.0; Tablet PC 2.0)", "Internet Explorer", "Windows", "7", "desktop"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Safari/537.36", "Samsung Internet", "Linux", "", "desktop"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.6478.183 Safari/537.36 Valve Steam Client", "Chrome", "Linux", "", "desktop"),
    ("Mozilla/5.0 (PC; OpenHarmony 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/132.0.0.0 Safari/537.36 ArkWeb/6.0.0.47 HuaweiBrowser/5.1.6.303", "Huawei Browser", "HarmonyOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)", "", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Macintosh; U; Intel Mac OS X 10_6_8; en-us) AppleWebKit/533.21.1 (KHTML, like Gecko) Version/5.0.5 Safari/533.21.1", "Safari", "macOS", "10.6.8", "desktop"),
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 OPR/125.0.0.0", "Opera", "macOS", "", "desktop"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) obsidian/1.6.3 Chrome/124.0.6367.243 Electron/30.1.2 Safari/537.36", "Electron", "Windows", "", "desktop"),
    # mobile
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1", "Safari", "iOS", "17.5.1", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1", "Safari", "iOS", "", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", "Safari", "iOS", "18.6", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/138.0.7204.119 Mobile/15E148 Safari/604.1", "Chrome", "iOS", "18.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/127.0 Mobile/15E148 Safari/605.1.15", "Firefox", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 EdgiOS/125.0.2535.60 Mobile/15E148 Safari/605.1.15", "Edge", "iOS", "17.5.1", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 16_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1 OPT/4.3.1", "Opera", "iOS", "16.7", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 DuckDuckGo/7 Safari/605.1.15", "DuckDuckGo", "iOS", "17.4", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/320.0.640125460 Mobile/15E148 Safari/604.1", "Google App", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 336.0.7.25.88 (iPhone14,5; iOS 17_5; de_DE; de; scale=3.00; 1170x2532; 609234217)", "Instagram", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21F90 [FBAN/FBIOS;FBAV/468.0.0.43.107;FBBV/609;FBDV/iPhone15,2;FBMD/iPhone;FBSN/iOS;FBSV/17.5.1;FBSS/3;FBID/phone;FBLC/de_DE;FBOP/5]", "Facebook", "iOS", "17.5.1", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148", "iOS WebView", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Safari Line/14.8.0", "LINE", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Snapchat/12.88.0.40 (like Safari/8618.2.12.11.6, panda)", "Snapchat", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [Pinterest/iOS]", "Pinterest", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 musical_ly_34.9.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/de Region/DE BytedanceWebview/d8a21c6", "TikTok", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 WhatsApp/2.24.11.85", "WhatsApp", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Twitter for iPhone/10.42", "Twitter", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 MicroMessenger/8.0.49(0x1800312c) NetType/WIFI Language/zh_CN", "WeChat", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [LinkedInApp]/9.29.5820", "LinkedIn", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPod touch; CPU iPhone OS 12_5_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1.2 Mobile/15E148 Safari/604.1", "Safari", "iOS", "12.5.7", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36", "Chrome", "Android", "", "mobile"),
    ("Mozilla/5.0 (Linux; Android 8.1.0; SM-J710F) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.5414.118 Mobile Safari/537.36", "Chrome", "Android", "8.1.0", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; SM-S911B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36", "Samsung Internet", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36", "Samsung Internet", "Android", "", "mobile"),
    ("Mozilla/5.0 (Android 14; Mobile; rv:144.0) Gecko/144.0 Firefox/144.0", "Firefox", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36 EdgA/140.0.0.0", "Edge", "Android", "", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36 OPR/86.0.0.0", "Opera", "Android", "", "mobile"),
    ("Opera/9.80 (Android; Opera Mini/36.2.2254/191.249; U; en) Presto/2.12.423 Version/12.16", "Opera Mini", "Android", "", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 13; en-us; 22111317I Build/TKQ1.221114.001) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/112.0.5615.136 Mobile Safari/537.36 XiaoMi/MiuiBrowser/14.9.1-gn", "Mi Browser", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; ANA-NX9; HMSCore 6.13.0.321) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99.0.4844.88 HuaweiBrowser/15.0.4.312 Mobile Safari/537.36", "Huawei Browser", "Android", "10", "mobile"),
    ("Mozilla/5.0 (Phone; OpenHarmony 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/114.0.0.0 Safari/537.36 ArkWeb/4.1.6.1 Mobile HuaweiBrowser/5.0.4.300", "Huawei Browser", "HarmonyOS", "", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; HarmonyOS; NOH-AN00; HMSCore 6.11.0.302) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99.0.4844.88 HuaweiBrowser/14.0.0.322 Mobile Safari/537.36", "Huawei Browser", "HarmonyOS", "", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 11; en-US; RMX2185 Build/RP1A.200720.011) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.58 UCBrowser/13.7.2.1636 Mobile Safari/537.36", "UC Browser", "Android", "11", "mobile"),
    ("Mozilla/5.0 (Linux; arm_64; Android 12; M2101K6G) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.6261.128 YaBrowser/24.4.1.94.00 SA/3 Mobile Safari/537.36", "Yandex Browser", "Android", "12", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UQ1A.240205.004; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.6422.53 Mobile Safari/537.36", "Android WebView", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; SM-A536B Build/TP1A.220624.014; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.179 Mobile Safari/537.36 Instagram 332.0.0.38.90 Android (33/13; 450dpi; 1080x2177; samsung; SM-A536B; a53x; s5e8825; de_DE; 601234)", "Instagram", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; M2007J20CG Build/SKQ1.211019.001; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.113 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/463.0.0.51.82;]", "Facebook", "Android", "12", "mobile"),
    ("Mozilla/5.0 (Linux; Android 11; CUBOT X50 Build/RP1A.200720.011) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.6367.82 Mobile Safari/537.36", "Chrome", "Android", "11", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; Pixel 7 Build/TQ3A.230901.001) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.113 Mobile DuckDuckGo/5 Safari/537.36", "DuckDuckGo", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Tizen 2.3; SAMSUNG SM-Z130H) AppleWebKit/537.3 (KHTML, like Gecko) Version/2.3 Mobile Safari/537.3", "Safari", "Tizen", "", "mobile"),
    ("Mozilla/5.0 (Mobile; LYF/F90M/LYF_F90M_000-01-40-130319; Android; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5", "Firefox", "KaiOS", "", "mobile"),
    ("Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063", "Edge", "Windows Phone", "", "mobile"),
    ("Mozilla/5.0 (BB10; Touch) AppleWebKit/537.10+ (KHTML, like Gecko) Version/10.0.9.2372 Mobile Safari/537.10+", "BlackBerry WebKit", "BlackBerry OS", "", "mobile"),
    ("Mozilla/5.0 (Android 13; Mobile; rv:109.0) Gecko/115.0 Firefox/115.0 Focus/115", "Firefox Focus", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; SM-G991B) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Focus/8.30 Chrome/124.0 Mobile Safari/537.36", "Firefox Focus", "Android", "12", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/8.1.6 Focus/127 Mobile/15E148 Safari/605.1.15", "Firefox Focus", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1 Mobile/15E148 Safari/604.1 OPX/2.3.0", "Opera", "iOS", "17.1", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; 2201117TY Build/UKQ1; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.0.0 Mobile Safari/537.36 musical_ly_2023402030 JsSdk/1.0 NetType/WIFI Channel/googleplay AppName/musical_ly app_version/34.2.3 ByteLocale/de-DE ByteFullLocale/de-DE Region/DE", "TikTok", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; SM-A525F Build/TP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.0.0 Mobile Safari/537.36 GSA/15.20.36.28.arm64", "Google App", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; SM-A525F Build/TP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/125.0.0.0 Mobile Safari/537.36 [Pinterest/Android]", "Pinterest", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; V2250 Build/UP1A.231005.007; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/123.0.6312.118 Mobile Safari/537.36 VivoBrowser/15.4.0.1", "VivoBrowser", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 14; zh-cn; PHB110 Build/UKQ1.230924.001) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/115.0.5790.168 Mobile Safari/537.36 HeyTapBrowser/40.10.0.1", "HeyTap Browser", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; moto g(60)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.5359.128 Mobile Safari/537.36", "Chrome", "Android", "12", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/143.0 Mobile/15E148 Safari/605.1.15", "Firefox", "iOS", "", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_6_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1", "Safari", "iOS", "", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_6_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", "Safari", "iOS", "18.6.2", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.2 Mobile/15E148 Safari/604.1", "Safari", "iOS", "", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148", "iOS WebView", "iOS", "", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0.7339.101 Mobile/15E148 Safari/604.1", "Chrome", "iOS", "26.0", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; K; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/140.0.0.0 Mobile Safari/537.36", "Android WebView", "Android", "", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; SM-G960F) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.210 Mobile Safari/537.36", "Chrome", "Android", "10", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 YaBrowser/24.4.2.430 Mobile/15E148 Safari/604.1", "Yandex Browser", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (iPhone; U; CPU iPhone OS 16_6 like Mac OS X; en) AppleWebKit/533.17.9 (KHTML, like Gecko) Mobile UCBrowser/11.3.5.1203", "UC Browser", "iOS", "16.6", "mobile"),
    ("Mozilla/5.0 (Linux; Android 9; CUBOT_X18_Plus) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/86.0.4240.198 Mobile Safari/537.36", "Chrome", "Android", "9", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; CUBOT) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 Mobile Safari/537.36", "Chrome", "Android", "12", "mobile"),
    ("Mozilla/5.0 (Windows Phone 8.1; ARM; Trident/7.0; Touch; rv:11.0; IEMobile/11.0; NOKIA; Lumia 630) like Gecko", "Internet Explorer", "Windows Phone", "", "mobile"),
    # tablet
    ("Mozilla/5.0 (iPad; CPU OS 12_5_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1.2 Mobile/15E148 Safari/604.1", "Safari", "iOS", "12.5.7", "tablet"),
    ("Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/125.0.6422.80 Mobile/15E148 Safari/604.1", "Chrome", "iOS", "17.5", "tablet"),
    ("Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome", "Android", "", "tablet"),
    ("Mozilla/5.0 (Linux; Android 13; SM-T870) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/103.0.5060.71 Safari/537.36", "Chrome", "Android", "13", "tablet"),
    ("Mozilla/5.0 (Android 12; Tablet; rv:128.0) Gecko/128.0 Firefox/128.0", "Firefox", "Android", "12", "tablet"),
    ("Mozilla/5.0 (Linux; Android 9; KFTRWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/120.3.1 like Chrome/120.0.6099.230 Safari/537.36", "Silk", "Android", "9", "tablet"),
    ("Mozilla/5.0 (Linux; Android 11; KFRAWI Build/RS8332.3115N; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/118.0.0.0 Safari/537.36", "Android WebView", "Android", "11", "tablet"),
    ("Mozilla/5.0 (Linux; U; en-US) AppleWebKit/528.5+ (KHTML, like Gecko, Safari/528.5+) Version/4.0 Kindle/3.0 (screen 600x800; rotate)", "Kindle", "Kindle", "", "tablet"),
    ("Mozilla/5.0 (X11; U; Linux armv7l like Android; en-us) AppleWebKit/531.2+ (KHTML, like Gecko) Version/5.0 Safari/533.2+ Kindle/3.0+", "Kindle", "Kindle", "", "tablet"),
    ("Mozilla/5.0 (Linux; U; Android 4.0.3; de-de; GT-P5100 Build/IML74K) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Safari/534.30", "Android Browser", "Android", "4.0.3", "tablet"),
    ("Mozilla/5.0 (Linux; Android 13; Lenovo TB-J606F) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.5359.128 Safari/537.36", "Chrome", "Android", "13", "tablet"),
    ("Mozilla/5.0 (Linux; Android 7.0; Nexus 9 Build/NRD90R) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/60.0.3112.107 Safari/537.36", "Chrome", "Android", "7.0", "tablet"),
    ("Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Mobile/15E148 Safari/604.1", "Safari", "iOS", "", "tablet"),
    ("Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/468.0.0.43.107;FBDV/iPad13,1;FBMD/iPad;FBSN/iPadOS;FBSV/17.5;FBID/tablet]", "Facebook", "iOS", "17.5", "tablet"),
    ("Mozilla/5.0 (Linux; Android 10; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/115.0 Safari/537.36", "Chrome", "Android", "10", "tablet"),
    ("Mozilla/5.0 (Tablet; OpenHarmony 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/132.0.0.0 Safari/537.36 ArkWeb/6.0.0.47 HuaweiBrowser/5.1.6.303", "Huawei Browser", "HarmonyOS", "", "tablet"),
    ("Mozilla/5.0 (Linux; Android 13; SAMSUNG SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/22.0 Chrome/111.0.5563.116 Safari/537.36", "Samsung Internet", "Android", "13", "tablet"),
    # tv
    ("Mozilla/5.0 (Linux; Android 9; AFTKA) AppleWebKit/537.36 (KHTML, like Gecko) Silk/120.3.1 like Chrome/120.0.6099.230 Safari/537.36", "Silk", "Android", "9", "tv"),
    ("Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/2.2 Chrome/63.0.3239.84 TV Safari/537.36", "Samsung Internet", "Tizen", "", "tv"),
    ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 WebAppManager", "Chrome", "webOS", "", "tv"),
    ("Mozilla/5.0 (Linux; Android 10; BRAVIA 4K VH2 Build/QTG3.200305.006.S292) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/115.0.5790.166 Safari/537.36", "Chrome", "Android", "10", "tv"),
    ("Mozilla/5.0 (X11; Linux armv7l) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.225 Safari/537.36 CrKey/1.54.250320", "Chrome", "Chromecast", "", "tv"),
    ("Mozilla/5.0 (Linux; Android 12; Chromecast Build/STTE.230319.008.H1; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/114.0.0.0 Safari/537.36", "Android WebView", "Android", "12", "tv"),
    ("Mozilla/5.0 (Apple TV; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)", "", "tvOS", "", "tv"),
    ("Mozilla/5.0 (Linux; Android 5.1; AFTS Build/LMY47O) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/41.99900.2250.0242 Mobile Safari/537.36", "Android WebView", "Android", "5.1", "tv"),
    ("Mozilla/5.0 (Linux; Android 11; SHIELD Android TV Build/RQ1A.210105.003) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "Chrome", "Android", "11", "tv"),
    ("Mozilla/5.0 (Linux; NetCast; U) AppleWebKit/537.31 (KHTML, like Gecko) Chrome/38.0.2125.122 Safari/537.31 SmartTV/7.0", "Chrome", "Linux", "", "tv"),
    ("Mozilla/5.0 (Linux; U; Android 9; en-us; MiTV-MOOQ0 Build/PI) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/89.0 Safari/537.36", "Chrome", "Android", "9", "tv"),
    # console
    ("Mozilla/5.0 (PlayStation 4 11.50) AppleWebKit/605.1.15 (KHTML, like Gecko)", "PlayStation Browser", "PlayStation", "", "console"),
    ("Mozilla/5.0 (PlayStation; PlayStation 5/8.20) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.0 Safari/605.1.15", "PlayStation Browser", "PlayStation", "", "console"),
    ("Mozilla/5.0 (PlayStation 4 3.11) AppleWebKit/537.73 (KHTML, like Gecko)", "PlayStation Browser", "PlayStation", "", "console"),
    ("Mozilla/5.0 (PlayStation Vita 3.74) AppleWebKit/537.73 (KHTML, like Gecko) Silk/3.2", "PlayStation Browser", "PlayStation", "", "console"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 Edg/124.0.0.0", "Edge", "Windows", "", "console"),
    ("Mozilla/5.0 (Nintendo Switch; WifiWebAuthApplet) AppleWebKit/606.4 (KHTML, like Gecko) NF/6.0.1.15.4 NintendoBrowser/5.1.0.20393", "Nintendo Browser", "Nintendo", "", "console"),
    ("Mozilla/5.0 (Nintendo 3DS; U; ; en) Version/1.7630.EU", "Nintendo Browser", "Nintendo", "", "console"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox Series X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/48.0.2564.82 Safari/537.36 Edge/20.02", "Edge", "Windows", "", "console"),
    ("Mozilla/5.0 (Nintendo WiiU) AppleWebKit/536.28 (KHTML, like Gecko) NX/3.0.3.12.6 NintendoBrowser/2.0.0.9362.EU", "Nintendo Browser", "Nintendo", "", "console"),
    # phones and tablets with the names of crawlers, also where an app repeats the model
    ("Mozilla/5.0 (Linux; Android 8.1.0; XBot Junior) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/87.0.4280.101 Mobile Safari/537.36", "Chrome", "Android", "8.1.0", "mobile"),
    ("Mozilla/5.0 (Linux; Android 8.1.0; XBot_Senior Build/O11019) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/65.0.3325.109 Mobile Safari/537.36", "Chrome", "Android", "8.1.0", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; Spider 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36", "Chrome", "Android", "13", "tablet"),
    ("Mozilla/5.0 (Linux; Android 7.0; M bot 51) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/81.0.4044.138 Mobile Safari/537.36", "Chrome", "Android", "7.0", "mobile"),
    ("Mozilla/5.0 (Linux; Android 8.0.0; Expanse) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/86.0.4240.99 Mobile Safari/537.36", "Chrome", "Android", "8.0.0", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 2.3.6; fr-fr; Cherry Sonic  Build/GRK39F) AppleWebKit/533.1 (KHTML, like Gecko) Version/4.0 Mobile Safari/533.1", "Android Browser", "Android", "2.3.6", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; XBot Junior Build/TP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/124.0.6367.179 Mobile Safari/537.36 Instagram 332.0.0.38.90 Android (33/13; 450dpi; 1080x2177; XBot; XBot Junior; x; de_DE; 601234)", "Instagram", "Android", "13", "mobile"),
    ("Mozilla/5.0 (Linux; Android 15; CPH2581 Build/AP3A.240617.008; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/141.0.7390.122 Mobile Safari/537.36", "Android WebView", "Android", "15", "mobile"),
    # pages inside apps
    ("Mozilla/5.0 (Linux; Android 12; LGE-AN10 Build/HONORLGE-AN10; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/86.0.4240.99 XWEB/3211 MMWEBSDK/20220303 Mobile Safari/537.36 MMWEBID/7223 MicroMessenger/8.0.21.2120(0x28001557) WeChat/arm64", "WeChat", "Android", "12", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; V2031 Build/SP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/89.0.4389.72 MQQBrowser/6.2 TBS/046291 Mobile Safari/537.36 MMWEBID/7223 MicroMessenger/8.0.30.2260 NetType/WIFI", "WeChat", "Android", "12", "mobile"),
    ("Mozilla/5.0 (Linux; Android 12; V2031 Build/SP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/89.0.4389.72 MQQBrowser/6.2 TBS/046291 Mobile Safari/537.36 V1_AND_SQ_9.0.15_5542_YYB_D QQ/9.0.15.14970 NetType/WIFI", "QQ", "Android", "12", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 13_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/17F80 QQ/8.3.6.618 V1_IPH_SQ_8.3.6_1_APP_A Pixel/1080", "QQ", "iOS", "13.5.1", "mobile"),
    ("Mozilla/5.0 (Linux; arm; Android 11; M2101K6G) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/102.0.5005.167 YaApp_Android/22.79 YaSearchBrowser/22.79 BroPP/1.0 SA/3 Mobile Safari/537.36", "Yandex Browser", "Android", "11", "mobile"),
    ("Mozilla/5.0 (Linux; Android 13; Infinix X6710 Build/TP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/108.0.5359.128 Mobile Safari/537.36 YandexSearch/7.53", "Yandex Browser", "Android", "13", "mobile"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/605.1 NAVER(inapp; search; 2000; 12.4.3; 14PRO)", "Naver", "iOS", "17.5", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; SM-S928N Build/UP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/122.0.6261.119 Mobile Safari/537.36;KAKAOTALK 2410340", "KakaoTalk", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; Android 14; SM-S928N Build/UP1A; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/122.0.6261.119 Mobile Safari/537.36 Barcelona 323.1.0.35.109 Android (34/14; 420dpi; 1080x2138; samsung; SM-S928N; e3q; qcom; ko_KR)", "Threads", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 14; zh-CN; 24115RA8EC Build/UKQ1) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.58 Quark/7.3.7.662 Mobile Safari/537.36", "Quark", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 14; zh-CN; 24115RA8EC Build/UKQ1) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/109.0.5414.86 UWS/5.12 Mobile Safari/537.36 AlipayDefined(nt:WIFI) AliApp(AP/10.5.96.8000) AlipayClient/10.5.96.8000", "Alipay", "Android", "14", "mobile"),
    ("Mozilla/5.0 (Linux; U; Android 10; zh-CN; BLM-00 Build/HUAWEIBLM-00) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/69.0.3497.100 UWS/3.22 Mobile Safari/537.36 AliApp(DingTalk/7.5.10)", "DingTalk", "Android", "10", "mobile"),
    ("Mozilla/5.0 (Linux; Android 10; Pixel 4 Build/Q; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/96.0.4664.104 Mobile Safari/537.36Snapchat11.59.0.35 (Pixel 4; Android 10; gzip)", "Snapchat", "Android", "10", "mobile"),
    # engines and code names that are no product
    ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_9_5) AppleWebKit/538.1+ (KHTML, like Gecko) Safari/538.1+", "", "macOS", "10.9.5", "desktop"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) QtWebEngine/5.15.2 Chrome/87.0.4280.144 Safari/537.36", "Chromium", "Linux", "", "desktop"),
    # televisions
    ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/538.2 (KHTML, like Gecko) Large Screen Safari/538.2 LG Browser/7.00.00(LGE; WEBOS1; 00.00.00; 1); webOS.TV-2014; LG NetCast.TV-2013 Compatible (LGE, WEBOS1, wired)", "LG Browser", "webOS", "", "tv"),
    ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Safari/537.36", "LG Browser", "webOS", "", "tv"),
    ("Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36", "Tizen Browser", "Tizen", "", "tv"),
    ("Mozilla/5.0 (SMART-TV; Linux; Tizen 2.3) AppleWebKit/538.1 (KHTML, like Gecko) Version/2.3 TV Safari/538.1", "Tizen Browser", "Tizen", "", "tv"),
    ("Mozilla/5.0 (X11; Linux armv7l) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/88.0.4324.182 Odin/88.4324.2.10 Safari/537.36 Model/Hisense-MT9602 VIDAA/6.0(TOSHIBA;SmartTV;43C350LE)", "VIDAA Browser", "VIDAA", "", "tv"),
    ("Mozilla/5.0 (Linux; VIDAA; SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Safari/537.36", "VIDAA Browser", "VIDAA", "", "tv"),
    ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/68.0.3440.106 Safari/537.36 HbbTV/1.5.1 (+DRM; LGE/ATMACA/SUNNY; SN50FMN242-0246; WEBOS5.0 04.50.60; W50_K6LP; DTV_C20P;)", "Chrome", "webOS", "", "tv"),
    ("Mozilla/5.0 (Linux armv7l) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/53.0.2785.143 Safari/537.36 OPR/40.0.2207.0 OMI/4.9 Model/Vestel-MB130 VSTVB MB100 HbbTV/1.2.1 (; JVC; MB130; 3.62.35.2; _TV_G10_2017;)", "Opera", "Linux", "", "tv"),
    # other
    ("Mozilla/5.0 (Linux; Android 14; Quest 3) AppleWebKit/537.36 (KHTML, like Gecko) OculusBrowser/33.1.0.4.50 Chrome/124.0.6367.118 VR Safari/537.36", "Meta Quest Browser", "Android", "14", "other"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) OculusBrowser/33.1 Chrome/124.0.6367.118 VR Safari/537.36", "Meta Quest Browser", "Linux", "", "other"),
    ("Mozilla/5.0 (X11; GNU/Linux) AppleWebKit/537.36 (KHTML, like Gecko) Chromium/88.0.4324.150 Chrome/88.0.4324.150 Safari/537.36 Tesla/2022.44.30", "Chromium", "Linux", "", "other"),
    ("Mozilla/5.0 (Haiku x86_64) AppleWebKit/604.1 (KHTML, like Gecko) WebPositive/1.3 Safari/604.1", "Safari", "", "", "other"),
]

# Apps and HTTP libraries: no browser; crawlers neither, whatever they are used for.
CLIENTS = [
    ("AppleTV11,1/11.1", "", "tvOS", "", "tv"),
    ("Roku/DVP-12.5 (12.5.0.4178)", "", "Roku", "", "tv"),
    ("okhttp/4.12.0", "", "", "", ""),
    ("MyApp/3.2 CFNetwork/1496.0.7 Darwin/23.5.0", "", "", "", ""),
    ("Dart/3.4 (dart:io)", "", "", "", ""),
    ("curl/8.5.0", "", "", "", ""),
    ("python-requests/2.32.3", "", "", "", ""),
    ("Go-http-client/2.0", "", "", "", ""),
    ("Java/17.0.11", "", "", "", ""),
    ("axios/1.7.2", "", "", "", ""),
    ("node", "", "", "", ""),
    ("Apache-HttpClient/4.5.14 (Java/17.0.11)", "", "", "", ""),
    ("Wget/1.21.4", "", "", "", ""),
    ("PostmanRuntime/7.39.0", "", "", "", ""),
    ("Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/UQ1A.240205.004)", "", "Android", "14", ""),
    ("MyShop/5.1 (iPhone; iOS 17.5; Scale/3.00)", "", "iOS", "17.5", "mobile"),
    ("aiohttp/3.9.5", "", "", "", ""),
    ("node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "", "", "", ""),
    ("Mozilla/5.0", "", "", "", ""),
    ("x", "", "", "", ""),
    ("-", "", "", "", ""),
    ("MyShop/4.2 (Linux; Android 13; SM-G991B)", "", "Android", "13", ""),
    ("MyShop/4.2 (Windows NT 10.0; Win64; x64)", "", "Windows", "", "desktop"),
    ("MyShop/4.2 (iPad; iOS 16.7.8; Scale/2.00)", "", "iOS", "16.7.8", "tablet"),
    ("Instagram 332.0.0.38.90 Android (33/13; 450dpi; 1080x2177; samsung; SM-A536B; a53x; s5e8825; de_DE)", "", "Android", "", ""),
    ("com.example.shop/412 CFNetwork/1410.0.3 Darwin/22.6.0", "", "", "", ""),
    ("Dalvik/2.1.0 (Linux; U; Android 5.1.1; KFFOWI Build/LVY48F)", "", "Android", "5.1.1", "tablet"),
    ("", "", "", "", ""),
]

CRAWLERS = [
    # search
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.6478.126 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Googlebot-Image/1.0",
    "Mozilla/5.0 (compatible; Google-InspectionTool/1.0;)",
    "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)",
    "Mediapartners-Google",
    "AdsBot-Google (+http://www.google.com/adsbot.html)",
    "FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/116.0.0.0 Safari/537.36 BingPreview/1.0b",
    "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
    "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
    "Mozilla/5.0 (compatible; YandexMetrika/2.0; +http://yandex.com/bots)",
    "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
    "Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)",
    "DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
    "Mozilla/5.0 (compatible; SeznamBot/4.0; +http://napoveda.seznam.cz/seznambot-intro/)",
    "Mozilla/5.0 (compatible; Yeti/1.1; +https://naver.me/spd)",
    "Mozilla/5.0 (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)",
    # language models
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)",
    "Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)",
    "CCBot/2.0 (https://commoncrawl.org/faq/)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot) Chrome/119.0.6045.214 Safari/537.36",
    "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
    # link previews
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
    "Twitterbot/1.0",
    "WhatsApp/2.23.20.0 A",
    "TelegramBot (like TwitterBot)",
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Slack-ImgProxy (+https://api.slack.com/robots)",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
    "Mozilla/5.0 (compatible; Pinterestbot/1.0; +http://www.pinterest.com/bot.html)",
    "Pinterest/0.2 (+http://www.pinterest.com/)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
    "Mozilla/5.0 (compatible; redditbot/1.0; +http://www.reddit.com/feedback)",
    # automated browsers
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.6478.126 Safari/537.36",
    "Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse",
    "Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
    "Mozilla/5.0 (linux) AppleWebKit/537.36 (KHTML, like Gecko) jsdom/24.1.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Prerender (+https://github.com/prerender/prerender)",
    # monitors
    "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
    "Mozilla/5.0 (compatible; Pingdom.com_bot_version_1.4_(http://www.pingdom.com/))",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 PingdomPageSpeed/1.0 (pingbot/2.0; +http://www.pingdom.com/)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/98.0.4758.102 Safari/537.36 StatusCake",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/117.0.0.0 Safari/537.36 GTmetrix",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 PTST/240601.1",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36 DatadogSynthetics",
    # search engine optimisation, archives, scanners
    "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)",
    "Mozilla/5.0 (compatible; AhrefsSiteAudit/6.1; +http://ahrefs.com/robot/site-audit)",
    "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
    "Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)",
    "Mozilla/5.0 (compatible; DotBot/1.2; +https://opensiteexplorer.org/dotbot; help@moz.com)",
    "Screaming Frog SEO Spider/20.1",
    "ia_archiver (+http://www.alexa.com/site/help/webmasters; crawler@alexa.com)",
    "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
    "Scrapy/2.11.2 (+https://scrapy.org)",
    "Mozilla/5.0 (compatible; CensysInspect/1.1; +https://about.censys.io/)",
    "Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)",
    "GOOGLEBOT/2.1",
    # crawlers that look like browsers
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_6) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/97.0.4692.71 Safari/537.36 (ThousandEyes Agent)",
    "Mozilla/5.0 (compatible; Splunk/1.0.0; https://splunk.com)",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/113.0.5672.126 Safari/537.36 RuxitSynthetic/1.0 v104032285451",
    "Mozilla/5.0 (Windows NT 10.0; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/83.0.4103.97 Safari/537.36 (Dotcom-Monitor)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.11 (KHTML, like Gecko) Chrome/23.0.1271.64 Safari/537.11 GotSiteMonitor.com",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.6099.199 Safari/537.36; OneTrust;",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36 CookieHubScan/3.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/95.0.4638.69 Safari/537.36 Silktide",
    "Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.1; Trident/6.0) LinkCheck by Siteimprove.com",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/109.0.0.0 Safari/537.36 CloudflareObservatory/1.0",
    "Mozilla/5.0 AppleWebKit/537.36 Chrome/139.0.7258.127 Safari/537.36 Google-Ads-Conversions",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko; compatible; GoogleAgent-Mariner) Chrome/142.0.7444.162 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/132.0.0.0 Safari/537.36; Manus-User/1.0",
    "Mozilla/5.0 (X11; Datanyze; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/65.0.3325.181 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/107.0 Safari/537.36 Ghost Inspector (63c85ddbde52d6697f57c623)",
    "Mozilla/5.0 (Linux; Android 8.1.0; XBot Junior) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/87.0.4280.101 Mobile Safari/537.36 (compatible; Googlebot/2.1)",
    # the general rule, for unlisted crawlers
    "acme-crawler/1.0",
    "Acme Web Spider",
    "Mozilla/5.0 (compatible; Acme/3.1; +https://acme.example/about-our-visits)",
]

# fmt: on
# Common crawlers that the general rule matches: the list has their names.
BOTS = (
    "AdsBot-Google",
    "AhrefsBot",
    "Amazonbot",
    "Applebot",
    "archive.org_bot",
    "AwarioBot",
    "Baiduspider",
    "BLEXBot",
    "bingbot",
    "Bytespider",
    "CCBot",
    "ClaudeBot",
    "Claude-SearchBot",
    "coccocbot",
    "DataForSeoBot",
    "Discordbot",
    "dotbot",
    "DuckDuckBot",
    "Googlebot",
    "GPTBot",
    "ImagesiftBot",
    "LinkedInBot",
    "MJ12bot",
    "MojeekBot",
    "OAI-SearchBot",
    "PerplexityBot",
    "PetalBot",
    "Pinterestbot",
    "Qwantbot",
    "redditbot",
    "SeekportBot",
    "SemrushBot",
    "SeznamBot",
    "Slackbot",
    "Storebot-Google",
    "TelegramBot",
    "Twitterbot",
    "UptimeRobot",
    "YandexBot",
)
DEVICES = {"", "desktop", "mobile", "tablet", "tv", "console", "other"}


class Recorder(Resolver):
    """An engine that recognizes nothing and records the length of each text."""

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def __call__(self, ua: str, domain: Domain, /) -> PartialResult:
        self.lengths.append(len(ua))
        return PartialResult(domains=domain, string=ua, user_agent=None, os=None, device=None)


ENGINES = {
    "python": BasicResolver,  # where ua-parser-rs has no wheel
    "installed": RegexResolver or BasicResolver,
}


@pytest.fixture(scope="module", params=ENGINES)
def agents(request: pytest.FixtureRequest) -> Agents:
    return Agents(ENGINES[request.param](browser_and_os_matchers()))


@cases(
    ("user_agent", "browser", "os", "os_version", "device"),
    PEOPLE + CLIENTS,
    ids=[f"{number} {row[4] or 'unknown'} {row[2]} {row[1]}" for number, row in enumerate(PEOPLE + CLIENTS)],
)
def test_browser_os_and_device(
    agents: Agents, user_agent: str, browser: str, os: str, os_version: str, device: str
) -> None:
    """Fields from the User-Agent; neither browsers nor HTTP libraries are crawlers."""
    found = agents.of(user_agent)
    assert (found.browser, found.os, found.os_version, found.device) == (browser, os, os_version, device)
    assert not found.crawler
    assert found.browser or not found.browser_version


WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
BLINK = "AppleWebKit/537.36 (KHTML, like Gecko)"


@cases(
    ("user_agent", "browser", "version"),
    [
        (f"(Windows NT 10.0; Win64; x64) {BLINK} Chrome/142.0.0.0 Safari/537.36", "Chrome", "142"),
        (f"(Windows NT 10.0; Win64; x64) {BLINK} Chrome/142.0.0.0 Safari/537.36 Edg/141.0.0.0", "Edge", "141"),
        ("(X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0", "Firefox", "144"),
        (f"(Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/26.1 Safari/605.1.15", "Safari", "26"),
        (
            f"(iPhone; CPU iPhone OS 18_6 like Mac OS X) {WEBKIT} Version/26.0 Mobile/15E148 Safari/604.1",
            "Safari",
            "26",
        ),
        (
            f"(iPhone; CPU iPhone OS 18_5 like Mac OS X) {WEBKIT} CriOS/138.0.7204.119 Mobile/1 Safari/604",
            "Chrome",
            "138",
        ),
        (
            f"(Linux; Android 10; K) {BLINK} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            "Samsung Internet",
            "28",
        ),
        ("(Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", "Internet Explorer", "11"),
        # a version of the system's web view, of another product, or none
        (f"(iPhone; CPU iPhone OS 17_5 like Mac OS X) {WEBKIT} Mobile/15E148", "iOS WebView", ""),
        ("(Android 13; Mobile; rv:109.0) Gecko/115.0 Firefox/115.0 Focus/115", "Firefox Focus", ""),
        (f"(X11; Linux x86_64) {WEBKIT} Version/16.0 Safari/605.1.15 Epiphany/605.1.15", "Epiphany", ""),
        (f"(Macintosh; Intel Mac OS X 10_15_7) {WEBKIT}", "", ""),
        # a page inside an app: the app's
        (
            f"(Linux; Android 14; V; wv) {BLINK} Chrome/86.0.4240.99 Mobile Safari/537.36 MicroMessenger/8.0.21",
            "WeChat",
            "8",
        ),
        (
            f"(Linux; Android 14; V; wv) {BLINK} Chrome/86.0.4240.99 Mobile Safari/537.36 Barcelona 323.1.0",
            "Threads",
            "323",
        ),
        (
            f"(Linux; Android 14; V; wv) {BLINK} Chrome/86.0.4240.99 Mobile Safari/537.36;KAKAOTALK 2410340",
            "KakaoTalk",
            "",
        ),
        (
            f"(Linux; Android 14; V; wv) {BLINK} Chrome/86.0.4240.99 Mobile Safari/537.36 NAVER(inapp; 12.4)",
            "Naver",
            "",
        ),
        (f"(X11; Linux x86_64) {BLINK} QtWebEngine/5.15.2 Chrome/87.0.4280.144 Safari/537.36", "Chromium", ""),
        # longer than any browser's
        (f"(Windows NT 10.0; Win64; x64) {BLINK} Chrome/9999.0.0.0 Safari/537.36", "Chrome", "9999"),
        (f"(Windows NT 10.0; Win64; x64) {BLINK} Chrome/10000.0.0.0 Safari/537.36", "Chrome", ""),
    ],
)
def test_the_major_version_of_the_browser(agents: Agents, user_agent: str, browser: str, version: str) -> None:
    """browser_version: the major version, of at most four digits."""
    found = agents.of(f"Mozilla/5.0 {user_agent}")
    assert (found.browser, found.browser_version) == (browser, version)


@cases("user_agent", CRAWLERS)
def test_crawlers_are_detected_by_name(agents: Agents, user_agent: str) -> None:
    """Crawlers (by User-Agent) on web requests: answered 202, their events in rejected."""
    assert agents.of(user_agent).crawler


LISTED = [*NAMES, *(name for names in ADDED.values() for name in names if name[0] != "^")]


@cases("name", LISTED)
def test_listed_names_count_as_words_of_any_case(agents: Agents, name: str) -> None:
    for written in (name, name.upper(), name.lower()):
        assert agents.of(f"Mozilla/5.0 (compatible; {written}/1.0)").crawler
    # By the general rule any word that ends in these is one.
    is_general = name.lower().endswith(("bot", "crawler", "spider", "scraper"))
    for within in (f"{name}x",) if is_general else (f"x{name}", f"{name}x"):
        assert not agents.of(f"Mozilla/5.0 (Linux; {within})").crawler


@cases("name", [*LISTED, *BOTS])
def test_crawler_names_come_from_the_list(agents: Agents, name: str) -> None:
    """The reported name is the one in the list, never other text of the header."""
    for written in (name, name.upper()):
        header = f"Mozilla/5.0 (compatible; {written}/7.1; secret; +https://example.com/about)"
        assert agents.of(header).crawler
        assert crawler_name(header) == name


@cases(
    ("header", "name"),
    [
        ("WhatsApp/2.23 A", "WhatsApp"),
        ("Mozilla/5.0 (compatible; secretbot/1.0)", ""),
        ("Mozilla/5.0 (X11; Linux) +https://secret.example", ""),
        ("", ""),
        ("x" * 600 + " Googlebot", ""),
        ("Mozilla/5.0 Google-InspectionTool/1.0;", "Google-InspectionTool"),
    ],
)
def test_unlisted_crawlers_have_no_name(header: str, name: str) -> None:
    assert crawler_name(header) == name


@cases("opening", ["WhatsApp/", "Pinterest/", "Feedly/"])
def test_preview_fetchers_are_detected_and_in_app_browsers_are_not(agents: Agents, opening: str) -> None:
    inside_the_app = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 "
    assert agents.of(f"{opening}2.1").crawler
    assert not agents.of(f"{inside_the_app}{opening}2.1").crawler


@cases(
    ("word", "crawler"),
    [
        ("bot", True),
        ("acmebot", True),
        ("acme_bot", True),
        ("acmebots", True),
        ("acmebot2", True),
        ("botany", False),
        ("robotics", False),
        ("bottle", False),
        ("CUBOT", False),
        ("cubot", False),
        ("Cubot-X50", False),
        ("CUBOT Googlebot", True),
        ("spiderman", False),
        ("crawler", True),
        ("crawlerish", False),
    ],
)
def test_general_words_count_at_a_word_end(agents: Agents, word: str, crawler: bool) -> None:
    assert agents.of(f"Mozilla/5.0 (Linux; Android 12; {word})").crawler is crawler


@cases(
    "hostile",
    [
        "A" * 65_536,
        "Mozilla/5.0 (" + "Android 10; " * 6_000,
        "Mozilla/5.0 " + "(" * 65_536,
        "Mozilla/5.0 " + "+http" * 13_000,
        "Mozilla/5.0 " + "cubot" * 13_000,
        "Mozilla/5.0 (iPhone; CPU iPhone OS " + "1" * 65_536 + " like Mac OS X)",
        "Mozilla/5.0 Version/" + "9" * 65_536,
        " " * 65_536,
        "\N{SNOWMAN}" * 65_536,
    ],
    ids=lambda text: text[:20].strip() or "blank",
)
def test_long_headers_are_truncated_before_parsing(hostile: str) -> None:
    """Only the first MAX_CHARACTERS are parsed."""
    engine = Recorder()
    agents = Agents(engine)
    assert agents.of(hostile) == agents.of(hostile[:MAX_CHARACTERS])
    assert engine.lengths == [MAX_CHARACTERS], "truncated, then parsed once: the second result is cached"


def test_text_beyond_the_limit_is_ignored(agents: Agents) -> None:
    assert agents.of("x" * (MAX_CHARACTERS - 9) + "Googlebot").crawler
    assert not agents.of("x" * (MAX_CHARACTERS - 8) + " Googlebot").crawler


def test_the_cache_is_bounded() -> None:
    """At most CACHED entries; the least recently used is evicted."""
    engine = Recorder()
    agents = Agents(engine)
    for number in range(CACHED):
        agents.of(f"agent {number}")
    agents.of("agent 0")
    assert len(engine.lengths) == CACHED, "agent 0 is still cached"
    agents.of("one more")
    agents.of("agent 0")
    assert len(engine.lengths) == CACHED + 1, "agent 0 was used lately"
    agents.of("agent 1")
    assert len(engine.lengths) == CACHED + 2, "agent 1 was evicted"


def test_two_agents_share_nothing() -> None:
    one, other = Recorder(), Recorder()
    Agents(one).of("x")
    Agents(other).of("x")
    assert (one.lengths, other.lengths) == ([1], [1])


def test_the_table_of_devices_is_not_loaded() -> None:
    """It would double the memory; devices are found by a rule of Tally's own."""
    browsers, systems, devices = browser_and_os_matchers()
    assert browsers
    assert systems
    assert devices == []


@given(st.one_of(st.text(max_size=600), st.text("()/;+. 0123456789 ABMacdinroX_\udcff\x00", max_size=600)))
def test_no_text_raises_or_breaks_a_limit(agents: Agents, text: str) -> None:
    """Headers can be any bytes; aiohttp decodes invalid UTF-8 to lone surrogates."""
    for user_agent in (text, f"Mozilla/5.0 {text}"):
        agent = agents.of(user_agent)
        assert agent.device in DEVICES
        assert all(len(label) <= MAX_LABEL for label in (agent.browser, agent.os, agent.os_version))
        assert all(label.isprintable() for label in (agent.browser, agent.os, agent.os_version))


def test_lone_surrogates_do_not_hide_the_rest(agents: Agents) -> None:
    agent = agents.of("Mozilla/5.0 (Windows NT 6.1; \udce4) Gecko/20100101 Firefox/115.0")
    assert (agent.browser, agent.os, agent.os_version) == ("Firefox", "Windows", "7")


# --- where ua-parser-rs has no wheel

WITHOUT = """
import json, sys, time
sys.modules["ua_parser_rs"] = None  # importing it fails, as where it is not installed
from tally.events.user_agent import Agents, is_compiled
from ua_parser import BasicResolver
given = json.load(sys.stdin)
agents = Agents()
assert not is_compiled() and type(agents.load()) is BasicResolver
parsed = []
for text in given["table"]:
    agent = agents.of(text)
    parsed.append([agent.browser, agent.os, agent.os_version, agent.device, agent.crawler])
slowest = 0.0
for text in given["hostile"]:
    taken = []
    for _ in range(3):
        begun = time.process_time()
        agents._read(text, ("", "", ""))
        taken.append(time.process_time() - begun)
    slowest = max(slowest, min(taken))
json.dump({"parsed": parsed, "slowest": slowest}, sys.stdout)
"""
HOSTILE = (
    "Mozilla/5.0 (" + "Android 10; " * 50,
    "Mozilla/5.0 " + "(" * 512,
    "Mozilla/5.0 (iPhone; CPU iPhone OS " + "1" * 512,
    "Mozilla/5.0 (Linux; " + "; " * 250,
    "Mozilla/5.0 " + "Version/1." * 50,
    "Mozilla/5.0 (Linux; Android 9; " + "Build/ " * 70,
    "CFNetwork/1." * 45,
    "(compatible; " * 40,
    "a b" * 170,
    " " * 512,
    "1." * 256,
    "/" * 512,
)


def test_results_are_the_same_without_the_compiled_engine() -> None:
    """In a process that cannot import ua_parser_rs. The bound is 20 times the time of the slowest text."""
    table = [row[0] for row in PEOPLE + CLIENTS] + list(CRAWLERS)
    sent = json.dumps({"table": table, "hostile": [text[:MAX_CHARACTERS] for text in HOSTILE]})
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=sent, capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert is_compiled(), "the tests compare with it"
    compiled = Agents(RegexResolver(browser_and_os_matchers()))  # type: ignore[misc]
    expected = [compiled.of(text) for text in table]
    assert found["parsed"] == [[a.browser, a.os, a.os_version, a.device, a.crawler] for a in expected]
    assert found["slowest"] < 0.5


@pytest.mark.slow
def test_doctor_names_the_engine(tmp_path: Path) -> None:
    script = "import sys; {hide}from analytics_server import main; sys.exit(main(['doctor', '--quick']))"
    reports = [
        subprocess.run(
            [sys.executable, "-c", script.format(hide=hide)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean_environment(PYTHONPATH=str(ROOT)),
        ).stdout
        for hide in ("", "sys.modules['ua_parser_rs'] = None; ")
    ]
    assert "ok     agents       User-Agents are parsed by the compiled ua-parser-rs" in reports[0]
    assert "note   agents       User-Agents are parsed in Python" in reports[1]
