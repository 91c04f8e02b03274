"""Earlier results of search, verification and compilation, on disk: one store with several kinds of
entries.

from mirage.cache import key_of, shared_store

key = key_of("code", kind_version("code"), text, chip)
payload = shared_store().get("code", key)
"""

from mirage.cache.entries import read_entry
from mirage.cache.folder import BadSizeError, cache_folder, size_limit
from mirage.cache.plain import PlainError, as_plain, from_plain
from mirage.cache.store import KINDS, Entry, Store, key_of, shared_store
from mirage.cache.versions import kind_version, version_of

__all__ = [
    "KINDS",
    "BadSizeError",
    "Entry",
    "PlainError",
    "Store",
    "as_plain",
    "cache_folder",
    "from_plain",
    "key_of",
    "kind_version",
    "read_entry",
    "shared_store",
    "size_limit",
    "version_of",
]
