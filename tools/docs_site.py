"""Hooks that mkdocs.yml names: patterns in `nav`, links to folders, lists that are folded.

tools/build_docs says how the site is built.
"""

import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def named(entries):
    """Yields the pages that entries of nav name without a pattern."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from named(value)
            elif "*" not in value:
                yield value


def expanded(entries, source, taken):
    """Returns entries of nav with all pages in the place of a pattern, but for those that are `taken`."""
    result = []
    for entry in entries:
        if isinstance(entry, dict):
            result.append({title: expanded(value, source, taken) if isinstance(value, list) else value
                           for title, value in entry.items()})
        elif "*" in entry:
            pages = (os.path.relpath(page, source) for page in glob.glob(os.path.join(source, entry)))
            result += [page for page in sorted(pages) if page not in taken and "0000-template" not in page]
        else:
            result.append(entry)
    return result


def on_config(config):
    config["nav"] = expanded(config["nav"], config["docs_dir"], set(named(config["nav"])))
    return config


def folded(markdown):
    """Returns a page whose lists of keys that do nothing are closed until they are clicked at."""
    return re.sub(r"^(Accepted and ignored|Not yet|Refused):\n\n((?:- .*\n?)+)",
                  r'<details markdown="1">\n<summary>\1</summary>\n\n\2\n</details>\n', markdown, flags=re.MULTILINE)


def on_page_markdown(markdown, page, config, files):
    """A folder is its README.md; of a folder without one the words stay. Lists of the page about keys are folded."""
    if page.file.src_path == "docs/config.md":
        markdown = folded(markdown)
    here = os.path.dirname(page.file.src_path)

    def whole(match):
        words, target = match.groups()
        folder = os.path.normpath(os.path.join(here, target))
        if ":" in target or not os.path.isdir(os.path.join(ROOT, folder)):
            return match.group()
        readme = os.path.join(config["docs_dir"], folder, "README.md")
        return f"[{words}]({target.rstrip('/')}/README.md)" if os.path.exists(readme) else words

    return re.sub(r"\[([^\[\]]+)\]\(([^()\s#]+)\)", whole, markdown)


def on_nav(nav, config, files):
    """Pages that nav does not name would not be found: mkdocs only notes them."""
    shown = {page.file.src_path for page in nav.pages}
    lost = sorted(file.src_path for file in files.documentation_pages() if file.src_path not in shown
                  and "0000-template" not in file.src_path)
    if lost:
        raise SystemExit(f"[mkdocs.yml] expected every page in nav, got none of {', '.join(lost)}; name them there")
    return nav
