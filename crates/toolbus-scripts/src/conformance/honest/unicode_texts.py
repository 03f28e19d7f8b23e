import collections
import difflib
import locale
import unicodedata

text = "Zoë ate a piñata; 東京 and 🎉"
print(len(text), len(text.encode()), unicodedata.normalize("NFD", "ë") == "e\u0308", unicodedata.name("🎉"))
print(text.upper(), "straße".casefold(), "Ǆ".title(), "١٢".isdigit() and int("١٢"))
print(locale.getpreferredencoding(False).lower(), f"{'右':>3}|{1234567.891:,.2f}|{0.25:.1%}|{255:#06x}")
words = collections.Counter("the cat and the dog and the bird".split())
print(words.most_common(2), difflib.get_close_matches("brid", words))
print("".join(difflib.unified_diff(["a\n", "b\n"], ["a\n", "c\n"], n=0)).splitlines()[-2:])
with open("Übersicht 東.txt", "w") as file:
    file.write(text)
print(open("Übersicht 東.txt").read() == text)

# prints:
# 26 35 True PARTY POPPER
# ZOË ATE A PIÑATA; 東京 AND 🎉 strasse ǅ 12
# utf-8   右|1,234,567.89|25.0%|0x00ff
# [('the', 3), ('and', 2)] ['bird']
# ['-b', '+c']
# True
