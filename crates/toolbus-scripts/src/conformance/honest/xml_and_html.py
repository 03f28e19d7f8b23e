import html
import html.parser
import xml.etree.ElementTree as tree

root = tree.fromstring("<shop><item price='3'>tea &amp; milk</item><item price='4'>bread</item></shop>")
print(sum(int(item.get("price")) for item in root.iter("item")), root[0].text)
root.append(tree.Element("item", price="5"))
tree.indent(root)
print(tree.tostring(root, encoding="unicode"))

class Links(html.parser.HTMLParser):
    found = []
    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if tag == "a" and name == "href"]

Links().feed("<p>see <a href='/one'>1</a><br><a class=x href=two?a=1&amp;b=2>2</a>")
print(Links.found, html.escape("<a> & 'b'"), html.unescape("&eacute;&#33;"))

# prints:
# 7 tea & milk
# <shop>
#   <item price="3">tea &amp; milk</item>
#   <item price="4">bread</item>
#   <item price="5" />
# </shop>
# ['/one', 'two?a=1&b=2'] &lt;a&gt; &amp; &#x27;b&#x27; é!
