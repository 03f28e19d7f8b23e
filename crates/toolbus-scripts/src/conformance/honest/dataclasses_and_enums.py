import dataclasses
import enum
import typing

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

@dataclasses.dataclass(order=True, frozen=True)
class Item:
    level: Level
    name: str = dataclasses.field(compare=False)
    tags: typing.Tuple[str, ...] = ()

items = [Item(Level.HIGH, "b"), Item(Level.LOW, "a", ("x",))]
print([item.name for item in sorted(items)], dataclasses.asdict(items[1])["tags"])
try:
    items[0].name = "other"
except dataclasses.FrozenInstanceError:
    print("frozen")
print(dataclasses.replace(items[0], name="c").name, enum.Flag("Right", "READ WRITE").READ.value)
match items[1]:
    case Item(level=Level.LOW, name=name):
        print("low", name)

# prints:
# ['a', 'b'] ('x',)
# frozen
# c 1
# low a
