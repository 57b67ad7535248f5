#!/usr/bin/env python3
"""Compares the code in a README with the example programs it was taken from, which are compiled and run by other tests.

    sdk_readme.py README [--write]

A block of code follows a line `<!-- FILE: NAME -->` and is what stands in FILE, relative to the README, between comments
`[NAME]` and `[/NAME]`, without the common indentation. Blocks of code without such a line are errors, except shell commands.
--write puts the code of the examples into the README."""
import pathlib
import re
import sys
import textwrap

BLOCK = re.compile(r"(?:^<!-- (?P<file>[^:\n]+): (?P<name>[^\n]+?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)


def snippet(path: pathlib.Path, name: str) -> str:
    lines = path.read_text().splitlines()
    marks = [i for i, line in enumerate(lines) if re.search(r"(//|#|/\*) \[/?" + re.escape(name) + r"\]", line)]
    if len(marks) != 2:
        raise SystemExit(f"{path}: [{name}] and [/{name}] must be there once each")
    return textwrap.dedent("\n".join(lines[marks[0] + 1:marks[1]])) + "\n"


def main() -> int:
    readme = pathlib.Path(sys.argv[1])
    text = readme.read_text()
    wrong = 0
    checked = 0

    def look(match: re.Match) -> str:
        nonlocal wrong, checked
        if match["file"] is None:
            if match["language"] != "sh":
                print(f"{readme}: code of no example:\n{match['code']}")
                wrong += 1
            return match[0]
        expected = snippet(readme.parent / match["file"], match["name"])
        checked += 1
        if match["code"] != expected:
            print(f"{readme}: differs from {match['file']} [{match['name']}]; this is the example:\n{expected}")
            wrong += 1
        return f"<!-- {match['file']}: {match['name']} -->\n```{match['language']}\n{expected}```"

    new = BLOCK.sub(look, text)
    if "--write" in sys.argv:
        readme.write_text(new)
        return 0
    print(f"{checked} blocks of code compared, {wrong} wrong")
    return 1 if wrong or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
