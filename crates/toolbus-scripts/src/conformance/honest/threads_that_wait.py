import queue
import threading

work, results = queue.Queue(maxsize=3), queue.SimpleQueue()
condition, ready = threading.Condition(), threading.Event()

def consume():
    while (item := work.get()) is not None:
        results.put(item * 10)
        with condition:
            condition.notify_all()

consumers = [threading.Thread(target=consume, daemon=True) for _ in range(3)]
for consumer in consumers:
    consumer.start()
for item in range(20):
    work.put(item)
with condition:
    print(condition.wait_for(lambda: results.qsize() == 20, timeout=20))
for _ in consumers:
    work.put(None)
timer = threading.Timer(0.05, ready.set)
timer.start()
print(ready.wait(20), sum(results.get() for _ in range(20)))
local = threading.local()
local.name = "main"
print(local.name, threading.current_thread() is threading.main_thread())

# prints:
# True
# True 1900
# main True
