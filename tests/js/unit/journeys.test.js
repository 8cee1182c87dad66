// The graph of journeys and the page's part of the address.

import assert from "node:assert/strict";
import { test } from "node:test";

import { JOURNEY_STATE, journeyGraph, linkPath, neighbour, nodeName } from "../../../static/journeys/journey_graph.js";
import { cases } from "./cases.js";

const read = (query) => JOURNEY_STATE.read(new URLSearchParams(query));
const USUAL = { start: null, direction: "next", steps: 3, limit: 5 };

cases("JOURNEY_STATE.read", read, [
  [[""], USUAL],
  [
    ["start=pathname:/a:b&direction=previous&steps=5&limit=20"],
    { start: { field: "pathname", value: "/a:b" }, direction: "previous", steps: 5, limit: 20 },
  ],
  [["start=country:DE&direction=sideways&steps=6&limit=7"], USUAL],
  [["start=pathname:&steps=0&limit="], USUAL],
]);
test("the state is written as it was read, without what is usual", () => {
  assert.deepEqual(JOURNEY_STATE.write(USUAL), []);
  const own = { start: { field: "event_name", value: "signup" }, direction: "previous", steps: 1, limit: 10 };
  assert.deepEqual(JOURNEY_STATE.write(own), [
    ["start", "event_name:signup"],
    ["direction", "previous"],
    ["steps", "1"],
    ["limit", "10"],
  ]);
});

const START = { field: "pathname", value: "/" };
const row = (step, from, to, visits) => ({
  step,
  from_field: from[0],
  from_value: from[1],
  field: to[0],
  value: to[1],
  visits,
});
const [HOME, A, B, OTHER, END] = [
  ["pathname", "/"],
  ["pathname", "/a"],
  ["event_name", "b"],
  [null, "(other)"],
  [null, null],
];
const ROWS = [
  row(1, HOME, END, 50),
  row(1, HOME, A, 30),
  row(1, HOME, OTHER, 20),
  row(2, A, B, 12),
  row(2, OTHER, B, 10),
  row(2, A, END, 18),
  row(2, OTHER, OTHER, 10),
];
const graph = (direction = "next") => journeyGraph(ROWS, { start: START, visits: 100, direction });
const named = (columns) => columns.map((column) => column.map((node) => `${nodeName(node, "next")} ${node.visits}`));

test("nodes are added up by step; other values and ends come last", () => {
  assert.deepEqual(named(graph().columns), [
    ["/ 100"],
    ["/a 30", "Other 20", "End of visit 50"],
    ["b 22", "Other 10", "End of visit 18"],
  ]);
});

test("a node's links lie within it, one below the other, as thick as their visits", () => {
  const { columns, links, height } = graph();
  for (const node of columns.flat()) {
    for (const [own, side] of [
      ["from", "start"],
      ["to", "end"],
    ]) {
      const ours = links.filter((link) => link[own] === node).sort((one, other) => one[side] - other[side]);
      let edge = node.y;
      for (const link of ours) {
        assert.equal(link.thickness, 3 * link.visits);
        assert.ok(link[side] - link.thickness / 2 >= edge - 1e-9);
        edge = link[side] + link.thickness / 2;
      }
      assert.ok(edge <= node.y + node.height + 1e-9);
    }
    assert.ok(node.y + node.height <= height);
  }
});

test("nodes of a column do not overlap, and small ones can be read", () => {
  for (const column of graph().columns) {
    for (const [i, node] of column.entries()) {
      assert.ok(node.height >= 40);
      if (i) assert.ok(node.y >= column[i - 1].y + column[i - 1].height);
    }
  }
});

test("backwards the start stands at the right, and links go from its left side", () => {
  const { columns, links, width } = graph("previous");
  assert.equal(columns[0][0].x + columns[0][0].width, width);
  assert.ok(columns[2][0].x < columns[1][0].x);
  assert.ok(linkPath(links[0]).startsWith(`M${columns[0][0].x} `));
  assert.equal(nodeName(columns[1][2], "previous"), "Start of visit");
});

test("arrow keys go to the next node of the column and to the nearest one beside it", () => {
  const { columns } = graph();
  const [start, a, end] = [columns[0][0], columns[1][0], columns[1][2]];
  assert.equal(neighbour(columns, a, "ArrowDown"), columns[1][1]);
  assert.equal(neighbour(columns, a, "ArrowUp"), null);
  assert.equal(neighbour(columns, a, "ArrowLeft"), start);
  assert.equal(neighbour(columns, end, "ArrowRight"), columns[2][2]);
  assert.equal(neighbour(columns, columns[2][0], "ArrowRight"), null);
  assert.equal(neighbour(columns, a, "Enter"), null);
  const back = graph("previous").columns;
  assert.equal(neighbour(back, back[1][0], "ArrowRight"), back[0][0]);
});
