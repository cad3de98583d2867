"""Hooks of MkDocs for the site: pages that are written when it is built, links out of docs/.

A page links to a file by its path in the repository, as GitHub shows it.  On the site such a link leads to
the page that is made of the file or, if there is none, into the ``repository`` of mkdocs.yml; without one it
becomes the path.  A link that leads nowhere is a warning, and an error under ``--strict``.
"""

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from dev.docs.commands import reference  # noqa: E402

DOCS = ROOT / "docs"
COPIED = {
    "changelog.md": "CHANGELOG.md",
    "configuration.md": "config/README.md",
    "contributing.md": ".github/CONTRIBUTING.md",
    "security.md": ".github/SECURITY.md",
}
"""Pages that lie elsewhere in the repository."""
RESULTS = {run.parent.name: f"models/{run.parent.name}/README.md" for run in DOCS.glob("models/*/run.json")}
"""Pages with the published results of a run."""
PAGE_OF = {source: page for page, source in COPIED.items()} | {
    f"docs/models/{run}": page for run, page in RESULTS.items()
}
"""The page that is made of a file or a directory."""
EXPLORER, DEMO = "serve.html#the-explorer", "demo/index.html"
"""The section about the explorer; the first page of the site links the explorer itself, of `make docs`."""
COMMANDS = "<!-- the commands -->"
"""Place of the reference in command-line.md."""
CODE = r"(?:^|(?<=\n))```.*?\n```|`[^`\n]*`"
LINK = r"\[((?:`[^`\n]*`|[^\[\]])*)\]\(([^()\s]+)\)"

log = logging.getLogger("mkdocs.hooks.cadmus")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    for name, source in COPIED.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the reference of the command line into its page, and lead every link where it leads on the site."""
    name = page.file.src_uri
    source = COPIED.get(name) or f"docs/{name}"
    markdown = markdown.replace(COMMANDS, reference() if COMMANDS in markdown else "")
    # In a table Python-Markdown takes a bar in code as it is; on GitHub it has to be escaped.
    markdown = re.sub(r"^\|.*", lambda row: re.sub(r"`[^`]*`", _bars, row[0]), markdown, flags=re.MULTILINE)
    return re.sub(
        rf"{LINK}|{CODE}",
        lambda hit: hit[0] if hit[2] is None else _link(hit[1], hit[2], name, source, config, files),
        markdown,
        flags=re.DOTALL,
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show names in docstrings without roles of reStructuredText; lead from the first page to the demo."""
    if page.file.src_uri == "index.md":
        html = html.replace(f'href="{EXPLORER}"', f'href="{DEMO}"', 1)
    return re.sub(r":[a-z]+:<code>(?:cadmus\.)?([^<]*)</code>", r"<code>\1</code>", html)


def _bars(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def _link(text: str, target: str, name: str, source: str, config: MkDocsConfig, files: Files) -> str:
    """A link of the page ``name``, which is written in the file ``source`` of the repository."""
    place, hash_, anchor = target.partition("#")
    if "://" in place or not place:
        return f"[{text}]({target})"
    path = os.path.normpath(os.path.join(os.path.dirname(source), place))
    if not (ROOT / path).exists():
        log.warning("%s: a link leads to %s, which does not exist", source, path)
    elif path in PAGE_OF or _on_site(path, files):
        page = PAGE_OF.get(path, path.removeprefix("docs/"))
        if path.endswith(text):
            # The name of a file, which the site does not show.
            text = _titles(config.nav).get(page, text)
        return f"[{text}]({os.path.relpath(page, os.path.dirname(name) or '.')}{hash_}{anchor})"
    elif repository := config.extra.get("repository"):
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"[{text}]({repository.rstrip('/')}/{kind}/main/{path})"
    return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"


def _on_site(path: str, files: Files) -> bool:
    """Return whether a file of the repository is one of the site."""
    file = files.get_file_from_path(path.removeprefix("docs/")) if path.startswith("docs/") else None
    return file is not None and not file.inclusion.is_excluded()


def _titles(nav: Any) -> dict[str, str]:
    """The titles of the pages in the navigation, by their files."""
    entries = [entry for part in nav for entry in part.items()]
    below = [_titles(entry) for _, entry in entries if isinstance(entry, list)]
    return {entry: title for title, entry in entries if isinstance(entry, str)} | {
        page: title for titles in below for page, title in titles.items()
    }
