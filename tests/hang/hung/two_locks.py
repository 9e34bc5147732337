"""Two threads take two locks in opposite order."""

import threading
import time

weights, cache = threading.Lock(), threading.Lock()


def reload_weights():
    with weights:
        time.sleep(0.3)
        with cache:
            pass


def evict_cache():
    with cache:
        time.sleep(0.3)
        with weights:
            pass


other = threading.Thread(target=evict_cache, name="evictor")
other.start()
print("hung from here", flush=True)
reload_weights()
