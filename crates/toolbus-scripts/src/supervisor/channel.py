# The channel of a script to its caller: the script writes requests to a socket, and each gets exactly one
# response.
#
# Frames, both ways: four bytes of length and four of a number (most significant first), and the body. The
# numbers are the script's own; one may be used again when its response has been handed over. A script
# that breaks a rule finds the channel closed, and nothing else happens to it.
#
# It never blocks, and what it holds is bounded: it stops to read while too many requests have no
# response, or while what is told is not taken; responses come from the manager only so fast as they are
# handed over.

def serve_channel(file, poll, tell, tell_at_once, is_behind):
    import binascii
    import os
    import select

    BODY_BYTES = 1 << 20
    HEAD_BYTES = 8
    OPEN_REQUESTS = 64      # without a response, or with one that has not been handed over
    PIECE = 32 << 10        # most bytes of a request in one line
    READ_BYTES = 256 << 10

    class Channel:
        is_open = True
        events = 0              # what is polled for
        ended = False           # the script writes no more
        arrived = bytearray()   # what is not a whole request yet
        numbers = set()         # the script's own, that are in use
        unanswered = {}         # these, by the numbers that the manager knows
        count = 0               # requests that were told
        responses = bytearray()  # what was not written yet
        unwritten = []          # where each of them ends, and its two numbers
        queued = written = 0    # bytes of all responses

        def act(self):
            if self.responses:
                self.write_responses()
            if self.is_open and self.events & select.POLLIN:
                self.read_requests()

        def answer(self, request, body):
            number = self.unanswered.pop(request, None)
            # It was answered before, or the channel was closed.
            if number is None:
                return
            self.responses += len(body).to_bytes(4, "big") + number.to_bytes(4, "big") + body
            self.queued += HEAD_BYTES + len(body)
            self.unwritten.append((self.queued, request, number))
            self.write_responses()

        def write_responses(self):
            while self.responses:
                try:
                    written = os.write(file, memoryview(self.responses)[:READ_BYTES])
                except BlockingIOError:
                    return
                except OSError:
                    return self.close()
                del self.responses[:written]
                self.written += written
                while self.unwritten and self.unwritten[0][0] <= self.written:
                    _, request, number = self.unwritten.pop(0)
                    self.numbers.remove(number)
                    tell(b"answered", b"%d" % request)

        def read_requests(self):
            try:
                piece = os.read(file, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                return self.close()
            self.arrived += piece
            self.ended = not piece

        def may_take(self):
            return self.is_open and len(self.numbers) < OPEN_REQUESTS and not is_behind()

        def take_requests(self):
            while self.may_take() and len(self.arrived) >= HEAD_BYTES:
                length = int.from_bytes(self.arrived[:4], "big")
                number = int.from_bytes(self.arrived[4:HEAD_BYTES], "big")
                if length > BODY_BYTES or number in self.numbers:
                    return self.close()
                end = HEAD_BYTES + length
                if len(self.arrived) < end:
                    return
                self.numbers.add(number)
                self.unanswered[self.count] = number
                self.tell_request(self.arrived[HEAD_BYTES:end])
                del self.arrived[:end]

        def tell_request(self, body):
            request = self.count
            self.count += 1
            while len(body) > PIECE:
                piece = binascii.b2a_base64(body[:PIECE], newline=False)
                tell_at_once(b"ask", b"%d more %s" % (request, piece))
                del body[:PIECE]
            tell_at_once(b"ask", b"%d last %s" % (request, binascii.b2a_base64(body, newline=False)))

        # Once a round, after all that happened in it.
        def settle(self):
            self.take_requests()
            # What is left of a script that writes no more is half a request, or nothing.
            if self.ended and self.may_take() and (self.arrived or not self.numbers):
                self.close()
            if not self.is_open:
                return
            events = select.POLLIN if self.may_take() and not self.ended else 0
            if self.responses:
                events |= select.POLLOUT
            if events == self.events:
                return
            # One that is polled for nothing would still be reported as hung up, over and over.
            if events:
                poll.register(file, events)
            else:
                poll.unregister(file)
            self.events = events

        # The script has none.
        def discard(self):
            self.is_open = False
            os.close(file)

        def close(self):
            if not self.is_open:
                return
            if self.events:
                poll.unregister(file)
            self.discard()
            for held in self.arrived, self.responses, self.numbers, self.unanswered, self.unwritten:
                held.clear()
            tell(b"closed")

    return Channel()
