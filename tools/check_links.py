#!/usr/bin/env python3
"""Checks that links and pictures of Markdown pages lead somewhere: to a file or folder that is there, to a heading that it has.

usage: tools/check_links.py [PAGE.md ...]      without one: every page of this repository
Addresses of other hosts are not asked. Exit status 1 where a link leads nowhere.
"""

import os
import re
import subprocess
import sys
from urllib.parse import unquote

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
ATTRIBUTE = re.compile(r"<(?:a|img|source)\s[^>]*?\b(?:href|src|srcset)=\"([^\"]+)\"")


def pages():
    """Returns the Markdown pages of the repository, by their paths in it."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
                            check=True, capture_output=True, text=True).stdout
    return sorted(page for page in listed.split("\0") if page and os.path.exists(os.path.join(ROOT, page)))


def without_code(text):
    """Returns a page with its code blanked: fenced blocks, blocks that are indented behind an empty line, spans."""
    lines, fence, blank, code = [], None, True, False
    for line in text.split("\n"):
        start = re.match(r"\s*(```+|~~~+)", line)
        if fence or start:
            closes = fence and line.strip().startswith(fence)
            fence = None if closes else fence or start.group(1)
            lines.append("")
            continue
        code = line.startswith("    ") and (code or blank) or (code and not line.strip())
        blank = not line.strip()
        lines.append("" if code else line)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", lambda span: "\n" * span.group().count("\n"), "\n".join(lines), flags=re.DOTALL)


def links(text):
    """Yields (line number, target) of the links and pictures of a page."""
    plain = without_code(text)
    for pattern in (LINK, DEFINITION, ATTRIBUTE):
        for match in pattern.finditer(plain):
            yield plain.count("\n", 0, match.start(1)) + 1, match.group(1)


def anchors(text):
    """Returns the anchors of a page's headings, as GitHub makes them, and its HTML ids."""
    found, result = {}, set(re.findall(r"\bid=\"([^\"]+)\"", text))
    fenced = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", fenced, re.MULTILINE):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = found.get(anchor, 0)
        found[anchor] = count + 1
        result.add(f"{anchor}-{count}" if count else anchor)
    return result


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_elsewhere(target):
    return re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE) is not None or target.startswith("//")


def problem(page, text, target):
    """Returns what is wrong with a link of a page, or None."""
    path, _, anchor = unquote(target).partition("#")
    file = os.path.normpath(os.path.join(ROOT, os.path.dirname(page), path)) if path else os.path.join(ROOT, page)
    if os.path.commonpath([ROOT, file]) != ROOT or not os.path.exists(file):
        return "expected a file or folder of this repository"
    if anchor and not file.endswith(".md"):
        return "expected an anchor of a Markdown page"
    if anchor and anchor not in anchors(read(file) if path else text):
        return f"expected a heading of {os.path.relpath(file, ROOT)}"
    return None


def main():
    asked = [os.path.relpath(os.path.abspath(page), ROOT) for page in sys.argv[1:]] or pages()
    count = failures = 0
    for page in asked:
        text = read(os.path.join(ROOT, page))
        for line, target in links(text):
            count += 1
            wrong = None if is_elsewhere(target) else problem(page, text, target)
            if wrong:
                failures += 1
                print(f"[{page}:{line}] {wrong}, got {target}", file=sys.stderr)
    if failures:
        sys.exit(1)
    print(f"{count} links of {len(asked)} pages lead somewhere")


if __name__ == "__main__":
    main()
