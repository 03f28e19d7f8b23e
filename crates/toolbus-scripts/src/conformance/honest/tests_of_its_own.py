import doctest
import io
import unittest
from unittest import mock

def double(n):
    """
    >>> double(4)
    8
    """
    return 2 * n

class Doubling(unittest.TestCase):
    def test_numbers(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertEqual(double(number), number + number)

    def test_mocks(self):
        with mock.patch("os.getcwd", return_value="/elsewhere"):
            import os
            self.assertEqual(os.getcwd(), "/elsewhere")

    def test_wrong(self):
        self.assertRaises(TypeError, double, None)

said = io.StringIO()
suite = unittest.defaultTestLoader.loadTestsFromTestCase(Doubling)
result = unittest.TextTestRunner(stream=said, verbosity=2).run(suite)
print(result.testsRun, result.wasSuccessful(), said.getvalue().count("ok"))
print(doctest.run_docstring_examples(double, {"double": double}))

# prints:
# 3 True 3
# None
