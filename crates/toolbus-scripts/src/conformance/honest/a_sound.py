import array
import math
import wave

rate = 8000
samples = array.array("h", (int(20000 * math.sin(2 * math.pi * 440 * n / rate)) for n in range(rate)))
with wave.open("output/tone.wav", "wb") as file:
    file.setnchannels(1)
    file.setsampwidth(2)
    file.setframerate(rate)
    file.writeframes(samples.tobytes())
with wave.open("output/tone.wav") as file:
    print(file.getnframes(), file.getframerate(), max(samples))

# leaves: tone.wav audio/wav
# prints:
# 8000 8000 20000
