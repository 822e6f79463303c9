"""The limits of calls that grpc has no setting for: messages that do not arrive, or are not read.

grpc's own handlers wait for the message of a call, and for the reader of an answer, without end,
and each such call is one of those that the server answers at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

MESSAGE_SECONDS = 10.0
"""Seconds in which the message of a call arrives."""

RESPONSE_SECONDS = 30.0
"""Seconds in which a client reads a message."""

ARRIVING = 64
"""Calls whose messages arrive at a time, of 4 MiB each; the oldest one gives way to a new one."""

STREAMS = 64
"""Streams at a time, so that calls have room beside them."""

Context = grpc.aio.ServicerContext
Handler = Any
"""A ``grpc.RpcMethodHandler``, which has no type for its functions."""


class CallLimits(grpc.aio.ServerInterceptor):
    """Reads messages and writes responses in the place of grpc; what a client sees is the same."""

    def __init__(
        self,
        message_seconds: float = MESSAGE_SECONDS,
        response_seconds: float = RESPONSE_SECONDS,
    ) -> None:
        """Begin without a call.

        Args:
            message_seconds: in which the message of a call arrives.
            response_seconds: in which a client reads a message.
        """
        self._message_seconds = message_seconds
        self._response_seconds = response_seconds
        self._arriving: dict[asyncio.Timeout, None] = {}  # the oldest first
        self._streams = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler of a call, with limits."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None

        async def call(_: object, context: "Context[Any, Any]") -> None:
            if handler.response_streaming:
                async with self._stream(context):
                    request = await self._message(handler, context)
                    responses = handler.unary_stream(request, context)
                    if isinstance(responses, Awaitable):  # the health service writes them itself
                        await responses
                        return
                    async for response in responses:
                        await self._write(response, context)
                return
            request = await self._message(handler, context)
            response = await handler.unary_unary(request, context)
            await self._write(response, context)

        async def exchange(requests: object, context: "Context[Any, Any]") -> None:
            async with self._stream(context):
                async for response in handler.stream_stream(requests, context):
                    await self._write(response, context)

        write = handler.response_serializer
        if handler.request_streaming:
            read = handler.request_deserializer
            return grpc.stream_stream_rpc_method_handler(exchange, read, write)
        return grpc.stream_stream_rpc_method_handler(call, None, write)

    async def _message(self, handler: Handler, context: "Context[Any, Any]") -> Any:
        """Return a message; the call ends here where it does not arrive or is malformed."""
        if len(self._arriving) >= ARRIVING:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        limit = asyncio.timeout(self._message_seconds)
        try:
            async with limit:
                self._arriving[limit] = None
                content: Any = await context.read()
        except TimeoutError:
            text = "the message did not arrive in time"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        finally:
            self._arriving.pop(limit, None)
        if content is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        try:
            return handler.request_deserializer(content)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message cannot be read")

    async def _write(self, response: Any, context: "Context[Any, Any]") -> None:
        """Write a message; the call ends here where the client does not read."""
        try:
            async with asyncio.timeout(self._response_seconds):
                await context.write(response)
        except TimeoutError:
            text = "the response was not read in time"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)

    @asynccontextmanager
    async def _stream(self, context: "Context[Any, Any]") -> AsyncIterator[None]:
        """Count a stream; the call ends here where there are too many."""
        if self._streams >= STREAMS:
            text = f"{STREAMS} streams are open, the limit; try again"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
