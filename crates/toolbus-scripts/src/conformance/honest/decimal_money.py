from decimal import ROUND_HALF_EVEN, Decimal, getcontext, localcontext

prices = [Decimal("19.99"), Decimal("0.105"), Decimal("100")]
net = sum(prices)
gross = (net * Decimal("1.19")).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
print(net, gross, f"{gross:,}")
with localcontext() as context:
    context.prec = 50
    print(Decimal(2).sqrt())
print(getcontext().prec, Decimal("1E+3").to_eng_string(), Decimal("0.1") + Decimal("0.2") == Decimal("0.3"))

# prints:
# 120.095 142.91 142.91
# 1.4142135623730950488016887242096980785696718753769
# 28 1E+3 True
