#!/usr/bin/env python3
"""Writes tests/golden/hub_push/requests.json: what huggingface_hub itself sends when it pushes a folder.

    python3 -m venv hub && hub/bin/pip install -r tools/hub_requirements.txt
    hub/bin/python tools/make_push_goldens.py

The library pushes to a hub on this machine, which this script serves: the part of huggingface.co's interface that pushes
use (create, branch, preupload, LFS batch with parts, commit). Recorded is what it writes; it reads more than we do.
"""
import hashlib
import http.server
import json
import os
import pathlib
import tempfile
import threading

PART_BYTES, SMALL_BYTES = 10000, 5000
REVISION, MESSAGE = "next", "Upload model"
FILES = {"config.json": '{"a": 1}\n', "notes.txt": "read me: \u00fc\n", "empty.txt": "", "sub/more.json": "{}\n"}
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "hub_push"


def weights():
    """The bytes of the same name in src/hub/push_test.cc."""
    seed, content = 7, bytearray()
    for _ in range(25000):
        seed = (seed * 1103515245 + 12345) % 2**32
        content.append(seed >> 16 & 255)
    return bytes(content)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests, parts = [], {}

    def log_message(self, *_):
        pass

    def answer(self, document, **headers):
        body = json.dumps(document).encode()
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", len(body))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({"id": "org/name", "sha": "a" * 40, "siblings": []})

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def do_POST(self):
        path, body = self.path.split("?")[0], self.body()
        record = {"method": self.command, "path": path, "has_token": "Authorization" in self.headers}
        here = f"http://{self.headers['Host']}"
        if self.command == "PUT":
            self.requests.append({**record, "sha256": hashlib.sha256(body).hexdigest()})
            return self.answer({}, ETag='"%s"' % hashlib.sha256(body).hexdigest())
        self.requests.append({**record, "type": self.headers["Content-Type"], "body": body.decode()})
        if path == "/api/repos/create":
            return self.answer({"url": f"{here}/org/name", "name": "org/name"})
        if "/preupload/" in path:
            return self.answer({"files": [
                {"path": one["path"], "shouldIgnore": False,
                 "uploadMode": "lfs" if one["size"] > SMALL_BYTES else "regular"} for one in json.loads(body)["files"]]})
        if path.endswith("/objects/batch"):
            return self.answer({"transfer": "multipart", "objects": [
                self.transfer(here, one) for one in json.loads(body)["objects"]]})
        if "/commit/" in path:
            return self.answer({"commitOid": "b" * 40, "commitUrl": f"{here}/org/name/commit/{'b' * 40}",
                                "success": True})
        return self.answer({})

    do_PUT = do_POST

    def transfer(self, here, one):
        count = -(-one["size"] // PART_BYTES)
        header = {"chunk_size": str(PART_BYTES)}
        header.update({str(part): f"{here}/objects/{one['oid']}/{part}?signature=secret"
                       for part in range(1, count + 1)})
        return {**one, "actions": {"upload": {"href": f"{here}/parts/{one['oid']}", "header": header},
                                   "verify": {"href": f"{here}/org/name.git/info/lfs/verify"}}}


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HF_HOME=home, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}", HF_HUB_DISABLE_XET="1",
                          HF_HUB_DISABLE_TELEMETRY="1")
        import huggingface_hub
        folder = pathlib.Path(home) / "folder"
        for name, content in {**{name: text.encode() for name, text in FILES.items()},
                              "model.safetensors": weights()}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        api = huggingface_hub.HfApi(token="hf_secret")
        api.create_repo("org/name", private=True, exist_ok=True, repo_type="model")
        api.create_branch("org/name", branch=REVISION, exist_ok=True)
        api.upload_folder(repo_id="org/name", folder_path=folder, revision=REVISION, commit_message=MESSAGE)
    OUT.mkdir(exist_ok=True)
    golden = {"huggingface_hub": huggingface_hub.__version__, "part_bytes": PART_BYTES, "revision": REVISION,
              "message": MESSAGE, "files": FILES, "requests": Handler.requests}
    (OUT / "requests.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
