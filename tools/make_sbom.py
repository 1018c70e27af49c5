#!/usr/bin/env python3
"""Writes what is in the packages as a bill of materials: SPDX 2.3, JSON.

usage: tools/make_sbom.py WHEEL FILE

Lists the libraries in the wheel, by the Debian package that each came from, and those that are headers alone or linked
in, which docs/dependencies.md has with their licences. Standard library and dpkg-query only; on the machine that made
the wheel.
"""

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# docs/dependencies.md's short names of licences, as SPDX has them.
LICENCES = {"BSD-2": "BSD-2-Clause", "BSD-3": "BSD-3-Clause", "LGPL-2.1 or MIT": "LGPL-2.1-only OR MIT"}
KNOWN = {"MIT", "Apache-2.0", "MPL-2.0", "Zlib", "curl"}
ARROW = re.compile(r"lib(arrow|parquet)\.so")
WHEEL = re.compile(r"spillway_train(?:_cu13)?-([^-]+)-")


def fail(message):
    sys.exit(f"[make_sbom] {message}")


def listed():
    """Yields (development package, SPDX licence) of what docs/dependencies.md says is in the program."""
    for line in (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 5 or cells[4] not in ("yes", "headers"):
            continue
        names, licences = cells[0].split(", "), cells[2].split(", ")
        for i, name in enumerate(names):
            licence = licences[min(i, len(licences) - 1)]
            yield name, LICENCES.get(licence, licence if licence in KNOWN else "NOASSERTION")


def facts_of(package):
    """Returns (source package, version) of an installed Debian package, or None."""
    asked = subprocess.run(["dpkg-query", "-W", "-f=${source:Package} ${Version} ${db:Status-Status}\n", package],
                           capture_output=True, text=True, check=False)
    words = asked.stdout.split("\n")[0].split()
    return (words[0], words[1]) if len(words) == 3 and words[2] == "installed" else None


def owner_of(library, cache):
    """Returns the Debian package that a library of this system came from."""
    found = re.search(rf"^\s*{re.escape(library)} .*=> (\S+)$", cache, re.MULTILINE)
    path = os.path.realpath(found[1]) if found else library
    for name in (path, "/usr" + path, path.removeprefix("/usr")):
        owner = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if owner.returncode == 0:
            return owner.stdout.split(":")[0]
    fail(f"expected a Debian package that owns {library}, got none; run this where the wheel was made")


def debian_package(name, licence, note):
    source, version = facts_of(name) or fail(f"expected the package {name}, got none; run tools/install_dependencies build")
    return {"name": name, "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}", "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", "comment": note,
            "sourceInfo": f"Debian source package {source}",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{name}@{version}"}]}


def from_pypi(name, wheel, version, licence, note):
    return {"name": name, "SPDXID": f"SPDXRef-{name}", "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", "comment": note,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:pypi/{wheel}@{version}"}]}


def cudart_package():
    """The CUDA runtime that is linked in, by the toolkit whose compiler is found as cmake/Cuda.cmake finds it."""
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    package = from_pypi("cuda-cudart", "nvidia-cuda-runtime", re.search(r"release \S+ V(\S+)", said)[1],
                        "NOASSERTION", "the static runtime of the CUDA toolkit with this compiler, by the toolkit's EULA; linked in")
    return {key: value for key, value in package.items() if key != "externalRefs"}


def arrow_package():
    version = re.search(r"^pyarrow==(\S+)", (ROOT / "tools" / "arrow_requirements.txt").read_text(), re.MULTILINE)[1]
    return from_pypi("arrow", "pyarrow", version, "Apache-2.0", "libarrow and libparquet, from PyPI's pyarrow")


def frontend_package():
    version = re.search(r"^nvidia-cudnn-frontend==(\S+)", (ROOT / "tools" / "cudnn_requirements.txt").read_text(), re.MULTILINE)[1]
    return from_pypi("cudnn-frontend", "nvidia-cudnn-frontend", version, "Apache-2.0 AND MIT", "headers, compiled into the program")


def packages_in(wheel):
    """Returns the packages of a wheel's libraries, and those of headers."""
    with zipfile.ZipFile(wheel) as files:
        libraries = [name.rsplit("/", 1)[1] for name in files.namelist() if "/data/lib/spillway/" in name]
    licences = {facts_of(name)[0]: licence for name, licence in listed() if facts_of(name)}
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found, sources = {}, set()
    for library in sorted(libraries):
        if library.startswith("libspillway_"):
            continue
        if ARROW.match(library):
            found["arrow"] = arrow_package()
            continue
        owner = owner_of(library, cache)
        source = facts_of(owner)[0]
        sources.add(source)
        found.setdefault(owner, debian_package(owner, licences.get(source, "NOASSERTION"), f"contains {library}"))
    for name, licence in listed():
        if facts_of(name) and facts_of(name)[0] not in sources:
            found[name] = debian_package(name, licence, "linked into the program")
    if "_cu13-" in wheel.name:
        found["cudnn-frontend"], found["cuda-cudart"] = frontend_package(), cudart_package()
    return [found[name] for name in sorted(found)]


def main(wheel, path):
    version = WHEEL.match(wheel.name)[1]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"name": "spillway", "SPDXID": "SPDXRef-spillway", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
           "copyrightText": "The Spillway authors", "packageFileName": wheel.name,
           "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    parts = packages_in(wheel)
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])] + [(own["SPDXID"], "CONTAINS", one["SPDXID"]) for one in parts]
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
                "name": f"spillway-{version}", "documentNamespace": f"https://spillway.invalid/spdx/spillway-{version}-{digest}",
                "creationInfo": {"created": created, "creators": ["Tool: tools/make_sbom.py"]},
                "packages": [own, *parts],
                "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                                  for one, kind, other in relations]}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"{path}: {len(parts)} packages")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        fail("expected WHEEL FILE; see the head of this file")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
