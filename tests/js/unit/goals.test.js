// The conditions of a goal in its form.

import { matchOf, partsOf } from "../../../static/goals/conditions.js";
import { cases } from "./cases.js";

cases("matchOf", matchOf, [
  [[{ type: "event", operator: "=", text: " signup ", more: "" }], ["filter_event_name=signup"]],
  [
    [{ type: "page", operator: "^=", text: "/docs", more: "filter_country=DE\n\n filter_os!=iOS" }],
    ["filter_pathname^=/docs", "filter_country=DE", "filter_os!=iOS"],
  ],
  [[{ type: "page", operator: "=", text: "", more: "" }], []],
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
