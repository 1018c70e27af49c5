#!/usr/bin/env python3
"""Writes tests/golden/hub: a cache as huggingface_hub itself leaves it, for our lookup to read.

    python3 -m venv hub && hub/bin/pip install -r tools/hub_requirements.txt
    hub/bin/python tools/make_hub_goldens.py

The library downloads from a hub on this machine, which this script serves: the part of huggingface.co's interface that
downloads use, with files of its own. `--serve FOLDER...` only serves, each folder as the model `here/NAME`, to try
things by hand:

    tools/make_hub_goldens.py --serve models/SmolLM2-135M-Instruct --port 8123
    HF_ENDPOINT=http://127.0.0.1:8123 spillway fetch here/SmolLM2-135M-Instruct

Changing a golden by hand is no test; run this again with a newer library instead.
"""
import argparse
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import tempfile
import threading

LARGE_BYTES = 1000  # a file that has more is in LFS
COMMITS = ["a" * 39 + "1", "b" * 39 + "2"]
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "hub"


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repository:
    """Files of one commit; `branch` names it."""

    def __init__(self, commit, files):
        self.commit, self.files = commit, files

    def listing(self, name):
        siblings = []
        for path, content in sorted(self.files.items()):
            one = {"rfilename": path, "size": len(content), "blobId": git_blob(content)}
            if len(content) > LARGE_BYTES:
                one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            siblings.append(one)
        return {"_id": "1", "id": name, "modelId": name, "sha": self.commit, "siblings": siblings, "private": False,
                "disabled": False, "downloads": 0, "likes": 0, "tags": [], "gated": False}

    def tree(self):
        result = []
        for path, content in sorted(self.files.items()):
            one = {"type": "file", "oid": git_blob(content), "size": len(content), "path": path}
            if len(content) > LARGE_BYTES:
                one["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            result.append(one)
        return result


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repositories = {}  # (kind, name, revision) -> Repository

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.pop("length", len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        listing = re.fullmatch(r"/api/(models|datasets)/(.+?)/(revision|tree)/([^/]+)", path)
        file = re.fullmatch(r"/(datasets/)?(.+?)/resolve/([^/]+)/(.+)", path)
        if listing:
            kind, name, what, revision = listing.groups()
            found = self.repositories.get((kind, name, revision))
            if not found:
                return self.answer(404, X_Error_Code="RepoNotFound")
            document = found.listing(name) if what == "revision" else found.tree()
            return self.answer(200, json.dumps(document).encode(), Content_Type="application/json")
        if not file:
            return self.answer(404)
        kind, name, revision, path = file.groups()
        found = self.repositories.get(("datasets" if kind else "models", name, revision))
        if not found:
            return self.answer(404, X_Error_Code="RepoNotFound")
        content = found.files.get(path)
        if content is None:
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=found.commit)
        return self.answer_file(found, content)

    do_HEAD = do_GET

    def answer_file(self, found, content):
        is_large = len(content) > LARGE_BYTES
        if is_large and "at=store" not in self.path:
            return self.answer(302, Location=f"http://localhost:{self.server.server_port}{self.path}?at=store",
                               X_Repo_Commit=found.commit, X_Linked_Size=len(content),
                               X_Linked_Etag='"%s"' % hashlib.sha256(content).hexdigest())
        etag = '"%s"' % (hashlib.sha256(content).hexdigest() if is_large else git_blob(content))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        headers = {"X_Repo_Commit": found.commit, "ETag": etag, "Accept_Ranges": "bytes"}
        if asked:
            first, last = int(asked[1]), int(asked[2] or len(content) - 1)
            headers["Content_Range"] = f"bytes {first}-{last}/{len(content)}"
            return self.answer(206, content[first:last + 1], **headers)
        return self.answer(200, content, **headers)


def add(kind, name, commit, files, branch="main"):
    repository = Repository(commit, files)
    Handler.repositories[kind, name, branch] = Handler.repositories[kind, name, commit] = repository


def serve(port):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def make_goldens():
    weights = bytes(range(256)) * 8
    model = {"config.json": b'{"model_type": "llama"}\n', "model.safetensors": weights, "tokenizer.json": b"{}\n"}
    add("models", "org/whole", COMMITS[0], model)
    add("models", "org/whole", COMMITS[1], {**model, "config.json": b'{"model_type": "qwen2"}\n'}, "other")
    add("models", "org/cut", COMMITS[0], {**model, "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}).encode(),
        "model-00001-of-00002.safetensors": weights})
    add("models", "bare", COMMITS[0], model)
    add("datasets", "org/rows", COMMITS[0], {"data/train-00000-of-00001.jsonl": b'{"text": "a"}\n', "README.md": b"\n"})
    server = serve(0)
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HF_HOME=home, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}",
                          HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1")
        from huggingface_hub import hf_hub_download, snapshot_download
        from huggingface_hub.errors import EntryNotFoundError
        snapshot_download("org/whole")
        snapshot_download("org/whole", revision="other")
        snapshot_download("org/cut", ignore_patterns=["model.safetensors"])
        snapshot_download("bare", allow_patterns=["config.json"])
        snapshot_download("org/rows", repo_type="dataset")
        try:
            hf_hub_download("org/whole", "generation_config.json")
        except EntryNotFoundError:
            pass
        shutil.rmtree(OUT, ignore_errors=True)
        shutil.copytree(pathlib.Path(home) / "hub", OUT, symlinks=True, ignore=shutil.ignore_patterns(".locks"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", nargs="+", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=8123)
    arguments = parser.parse_args()
    if not arguments.serve:
        return make_goldens()
    for folder in arguments.serve:
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        add("models", f"here/{folder.resolve().name}", COMMITS[0], files)
        add("datasets", f"here/{folder.resolve().name}", COMMITS[0], files)
    server = serve(arguments.port)
    print(f"HF_ENDPOINT=http://127.0.0.1:{server.server_port}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
