//! One answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

/// Answers a request. Where some of it is `unread` by then, its rest is in the way of another one,
/// so that the connection has to end; a client that was not told would send the next one in vain.
pub(super) async fn answer(
    router: Router,
    request: Request<Incoming>,
    unread: Arc<AtomicBool>,
) -> Result<Response, Infallible> {
    unread.store(!request.body().is_end_stream(), Ordering::Relaxed);
    let request = request.map(|body| Watched { body, unread: Arc::clone(&unread) });
    let mut response = TowerToHyperService::new(router).call(request).await?;
    if unread.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// A request's body, of which it is known whether any of it is left.
struct Watched {
    body: Incoming,
    unread: Arc<AtomicBool>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.unread.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
