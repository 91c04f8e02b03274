"""`mirage-lsp-server` starts, knows our dialects, and reports errors in them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVER = shutil.which("mirage-lsp-server", path=str(Path(sys.executable).parent))


def message(**fields: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def parse(output: bytes) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while output:
        header, _, rest = output.partition(b"\r\n\r\n")
        length = int(header.split(b":")[1])
        messages.append(json.loads(rest[:length]))
        output = rest[length:]
    return messages


def serve(text: str) -> list[dict[str, Any]]:
    document = {"uri": "file:///t.mlir", "languageId": "mlir", "version": 1, "text": text}
    requests = (
        message(id=0, method="initialize", params={"capabilities": {}})
        + message(method="initialized", params={})
        + message(method="textDocument/didOpen", params={"textDocument": document})
        + message(id=1, method="shutdown")
        + message(method="exit")
    )
    assert SERVER is not None
    done = subprocess.run([SERVER], input=requests, capture_output=True, check=True, timeout=60)
    return parse(done.stdout)


def diagnostics(text: str) -> list[str]:
    return [
        diagnostic["message"]
        for answer in serve(text)
        if answer.get("method") == "textDocument/publishDiagnostics"
        for diagnostic in answer["params"]["diagnostics"]
    ]


GRAPH = """
kernel.graph @square(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kernel.unary square %x : (tensor<4x8xf16>) -> tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}
"""


def test_a_correct_document_has_no_diagnostics() -> None:
    assert diagnostics(GRAPH) == []


def test_an_error_in_our_dialect_is_reported() -> None:
    assert diagnostics(GRAPH.replace("kernel.unary square", "kernel.unary squeeze"))
