"""A process that imports graphs of TorchDynamo for another one:
``python -m mirage.torch.import_process``.

It is separate from the processes that optimize programs, which need no PyTorch. A request has the
graph (:mod:`mirage.torch.graph_message`). The answer has the import as an entry of the cache, or
none if this process cannot import the graph in the same way as the other one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from mirage.cache import Store, shared_store
from mirage.cache import store as store_module
from mirage.pipeline.commands.compile_process import Entries, serve
from mirage.torch.autocast import with_explicit_casts
from mirage.torch.compiled_graph import describe
from mirage.torch.graph_import import import_graph
from mirage.torch.graph_message import GraphMessage
from mirage.torch.import_once import refused
from mirage.torch.kept_import import keep_import
from mirage.torch.kept_sizes import keep_sizes
from mirage.torch.sized_import import import_sized

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
            if message.is_told_by(module):
                _import(message, module, inputs)
    except Exception as error:
        return {"error": describe(error)}
    finally:
        store.seen = None
    return {"entries": entries}


def _import(message: GraphMessage, module: GraphModule, inputs: list[Any]) -> None:
    """Import a graph on a machine without its device, and keep the import."""
    rows, effects = message.rows, message.effects
    if rows is not None:
        sized = import_sized(module, rows, inputs, moved=False, effects=effects)
        keep_sizes(message.text, module, sized, rows.size_of(inputs))
        return
    try:
        plain = with_explicit_casts(module, inputs, message.homes)
    except Exception as error:  # PyTorch needs the device for that
        log.debug("the casts of a graph are not known here", exc_info=error)
        return
    try:
        found = import_graph(plain, inputs, moved=False, effects=effects)
    except Exception as error:

        def imported(piece: GraphModule, given: Sequence[Any]) -> object:
            return import_graph(with_explicit_casts(piece, given, message.homes), given, False)

        refused(module, inputs, error, imported, message.text)
        return
    keep_import(message.text, module, found)


if __name__ == "__main__":
    serve(answer)
