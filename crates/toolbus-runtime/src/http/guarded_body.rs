//! The body of a response, with something that is dropped at its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

pub(super) struct GuardedBody<G> {
    body: Body,
    _guard: G,
}

impl<G: Send + Unpin + 'static> GuardedBody<G> {
    /// The response, at the end of which `guard` is dropped.
    pub(super) fn guard(response: Response, guard: G) -> Response {
        response.map(|body| Body::new(Self { body, _guard: guard }))
    }
}

impl<G: Unpin> HttpBody for GuardedBody<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
