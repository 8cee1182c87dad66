// Filters by their keys, and their words.

import {
  filterParameter,
  filterText,
  isTaken,
  readFilter,
  splitKey,
  valuesByKey,
} from "../../../static/shared/filter_words.js";
import { cases } from "./cases.js";

cases("filterText", filterText, [
  [["country", ["DE", "FR"]], "Country is Germany or France"],
  [["pathname^", ["/blog"]], "Page begins with /blog"],
  [["pathname$", [".html"]], "Page ends with .html"],
  [["referrer*", ["news"]], "Referrer contains news"],
  [["browser!", ["Chrome"]], "Browser is not Chrome"],
  [["referrer", [""]], "Referrer is Direct / None"],
  [["prop.plan", ["pro", ""]], "Plan is pro or not set"],
  [["goal", ["91be02d7c3f8a655"], { "91be02d7c3f8a655": "Signup" }], "Goal is Signup"],
]);
cases("splitKey", splitKey, [
  [["country"], { field: "country", sign: "" }],
  [["country!"], { field: "country", sign: "!" }],
  [["prop.a.b$"], { field: "prop.a.b", sign: "$" }],
]);
cases("isTaken", isTaken, [
  [["os*", ["os"]], true],
  [["os~", ["os"]], false],
  [["prop.n", ["os"]], false],
  [["prop.n^", ["prop."]], true],
  [["prop.", ["prop."]], false],
  [["goal", ["goal"]], true],
  [["goal!", ["goal"]], false],
]);
cases("readFilter", readFilter, [
  [["filter_country!=DE"], ["country!", "DE"]],
  [["filter_pathname*=a=b"], ["pathname*", "a=b"]],
  [["filter_os="], ["os", ""]],
]);
cases("filterParameter", filterParameter, [[[["pathname^", "/a"]], "filter_pathname^=/a"]]);
cases("valuesByKey", valuesByKey, [
  [
    [
      [
        ["os", "a"],
        ["os!", "b"],
        ["os", ""],
      ],
    ],
    [
      ["os", ["a", ""]],
      ["os!", ["b"]],
    ],
  ],
]);
