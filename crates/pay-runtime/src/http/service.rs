//! What can be served: any tower service that answers HTTP and never fails.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;

use hyper::body::Body;
use hyper::{Request, Response};
use tower::{Service, ServiceExt as _};

use super::RequestBody;

/// Answers requests. Implemented for every fitting tower service, an axum `Router` among them; not to be implemented
/// by hand.
pub trait HttpService: Clone + Send + 'static {
    /// The body of the answers.
    type Body: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static;

    /// Answers one request.
    fn answer(
        self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send;
}

impl<S, B> HttpService for S
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn StdError + Send + Sync>>> + Send + 'static,
{
    type Body = B;

    fn answer(
        self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Result<Response<B>, Infallible>> + Send {
        self.oneshot(request)
    }
}
