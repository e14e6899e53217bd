//! Classifies errors of the AMQP client.

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

use crate::BrokerError;

/// What an error means for the caller.
pub(super) fn classify(address: &str, error: &lapin::Error) -> BrokerError {
    let rejected = |operation: &str, cause: String| BrokerError::Rejected {
        address: address.to_owned(),
        operation: operation.to_owned(),
        cause,
    };
    let ErrorKind::ProtocolError(refused) = error.kind() else {
        return BrokerError::Unreachable { address: address.to_owned(), cause: error.to_string() };
    };
    let text = refused.get_message().to_string();
    match refused.kind() {
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
            rejected("the operation", format!("{text}; check the user, the password and its permissions"))
        }
        AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED) => {
            rejected("a declaration", format!("{text}; set exchange_type as the other programs do"))
        }
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
            rejected("the connection", format!("{text}; check the virtual host of the URL"))
        }
        _ => BrokerError::Unreachable { address: address.to_owned(), cause: text },
    }
}

/// Whether an object exists with other settings than those declared.
pub(super) fn is_declared_otherwise(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(refused) = error.kind() else { return false };
    matches!(refused.kind(), AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED))
}
