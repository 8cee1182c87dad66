// The conditions of a goal in its form.

import { conditionsText, matchOf, partsOf } from "../../../static/goals/conditions.js";
import { cases } from "./cases.js";

cases("matchOf", matchOf, [
  [[{ type: "event", operator: "=", text: " signup ", more: [] }], ["filter_event_name=signup"]],
  [
    [{ type: "page", operator: "^=", text: "/docs", more: ["filter_country=DE", "filter_os!=iOS"] }],
    ["filter_pathname^=/docs", "filter_country=DE", "filter_os!=iOS"],
  ],
  [[{ type: "page", operator: "=", text: "", more: [] }], []],
]);

const again = (goal) => matchOf({ type: goal.type, ...partsOf(goal) });

cases("a goal keeps its conditions in the form", again, [
  [[{ type: "event", match: ["filter_event_name=a=b"] }], ["filter_event_name=a=b"]],
  [
    [{ type: "page", match: ["filter_pathname$=.pdf", "filter_country="] }],
    ["filter_pathname$=.pdf", "filter_country="],
  ],
  [[{ type: "page", match: ["filter_pathname!=/a"] }], ["filter_pathname!=/a"]],
  [[{ type: "event", match: ["filter_prop.plan=pro"] }], ["filter_prop.plan=pro"]],
]);

cases("conditionsText", conditionsText, [
  [[["filter_pathname=/%C3%BCber-uns"]], "Page is /über-uns"],
  [[["filter_entry_page^=/%E4%B8%AD"]], "Entry page begins with /中"],
  [[["filter_prop.path!=/%E4%B8%AD"]], "Path is not /%E4%B8%AD"],
  [[["filter_pathname=/a", "filter_country=DE", "filter_pathname=/b"]], "Page is /a or /b, Country is Germany"],
]);

cases("partsOf, text", (goal) => partsOf(goal).text, [
  [[{ type: "page", match: ["filter_pathname=/%D8%B3%D9%84%D8%A7%D9%85"] }], "/سلام"],
  [[{ type: "event", match: ["filter_event_name=%41"] }], "%41"],
]);
