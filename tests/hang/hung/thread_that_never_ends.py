"""The main thread joins a thread that waits for a condition nobody signals."""

import threading

ready = threading.Condition()


def update_inputs():
    with ready:
        ready.wait()


worker = threading.Thread(target=update_inputs, name="update")
worker.start()
print("hung from here", flush=True)
worker.join()
