use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::Makers;

pub(super) fn reply(_makers: &mut Makers, _request: &ReceivedRequest) -> Option<Reply> {
    None
}
