"""The minifier of scripts. tests/browser test the minified tracker."""

import shutil
import subprocess

import pytest

from tally.web.minifier import compact
from tests.support.cases import cases


@cases(
    ("source", "expected"),
    [
        ("x = 1; // one\n/* two\n */ y();\n", "x=1;y();"),
        ("a = b +\n\t+c - -d;", "a=b+ +c- -d;"),
        ("f()\ng();\n", "f()\ng();"),
        ("const f = () => {\n\treturn 1;\n};\nif (f()) {\n}\ng();", "let a=()=>{return 1};if(a()){}\ng();"),
        ('s = "a  // b" + `c  ${ d }  e`;', 's="a  // b"+`c  ${ d }  e`;'),
        ("t.replace(/a [/] \\/b/g, '');", "t.replace(/a [/] \\/b/g,'');"),
        ("x = y / z / 2;", "x=y/z/2;"),
        # The comma or semicolon before a closing bracket is not needed, but an element that is left out is one.
        ("f(\n\ta,\n\tb,\n);\nx = { a, };\ny = [, ];", "f(a,b);x={a};y=[,];"),
    ],
)
def test_comments_and_spaces_are_removed(source: str, expected: str) -> None:
    assert compact(source) == expected


@cases(
    ("source", "expected"),
    [
        ("const count = 1;\nuse(count, count);", "let a=1;use(a,a);"),
        ("(word) => word + 1;", "(a)=>a+1;"),
        # Each of these can be the name of a property, or is a string.
        ("const count = 1;\nx.count = count;", "let count=1;x.count=count;"),
        ("const count = 1;\nuse({ count });", "let count=1;use({count});"),
        ("const count = 1;\nuse({ count: 2 });", "let count=1;use({count:2});"),
        ("const count = 1;\nuse(`${count}`);", "let count=1;use(`${count}`);"),
        ('const count = 1;\nuse("count");', 'let a=1;use("count");'),
        # A letter that the script uses itself is not a new name.
        ("const count = 1;\na(count);", "let b=1;a(b);"),
    ],
)
def test_local_names_are_shortened(source: str, expected: str) -> None:
    assert compact(source) == expected


def test_minified_scripts_behave_the_same() -> None:
    """Run a script with the tracker's syntax before and after minification."""
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: no node here to run a script with")
    source = """
const twice = (given) => { // doubles
	const made = given * 2;
	return made;
};
const words = ["a", "b c"], text = `x ${words[1]}  y`;
let sum = 0;
for (const word of words) sum += twice(word.length);
const { length, ...rest } = { length: sum, made: 1 };
console.log(JSON.stringify({ sum, length, rest, text, regex: "a/b//c".replace(/\\/+/g, "/") }), sum / 2 / 2);
"""
    run = [subprocess.run(["node", "-e", text], capture_output=True, text=True) for text in (source, compact(source))]
    assert run[0].stdout
    assert (run[1].stdout, run[1].stderr) == (run[0].stdout, "")
