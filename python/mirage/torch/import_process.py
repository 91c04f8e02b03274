"""A process that imports graphs of TorchDynamo for another one:
``python -m mirage.torch.import_process``.

It is a process of its own beside those that optimize programs, which need no PyTorch. A request has
the graph (:mod:`mirage.torch.graph_message`), and the answer the import as an entry of the cache,
or none if this process cannot import the graph as the other would.
"""

from __future__ import annotations

import logging
from typing import Any

from torch.fx import GraphModule

from mirage.cache import Store, shared_store
from mirage.cache import store as store_module
from mirage.pipeline.commands.compile_process import Entries, serve
from mirage.torch.autocast import with_explicit_casts
from mirage.torch.compiled_graph import describe
from mirage.torch.graph_import import import_graph
from mirage.torch.graph_message import GraphMessage
from mirage.torch.kept_import import keep_import

log = logging.getLogger("mirage.torch")


def answer(request: dict[str, Any], progress: Any) -> dict[str, Any]:
    """Return the answer to a request: ``entries``, or an ``error`` in one line."""
    message: GraphMessage = request["graph"]
    store = shared_store() if request["kept"] else Store(None, 1)
    entries: Entries = {}
    store.seen = entries
    try:
        with store_module.shared_as(store), message.settings.applied():
            module, inputs = message.graph()
            plain = _without_regions(message, module, inputs)
            if plain is not None and message.is_told_by(module):
                # there is no device
                found = import_graph(plain, inputs, moved=False, effects=message.effects)
                keep_import(message.text, module, found)
    except Exception as error:
        return {"error": describe(error)}
    finally:
        store.seen = None
    return {"entries": entries}


def _without_regions(message: GraphMessage, module: GraphModule, inputs: list[Any]) -> Any:
    """Return the graph without regions of autocast; None if PyTorch needs the device for that."""
    try:
        return with_explicit_casts(module, inputs, message.homes)
    except Exception as error:
        log.debug("the casts of a graph are not known here", exc_info=error)
        return None


if __name__ == "__main__":
    serve(answer)
