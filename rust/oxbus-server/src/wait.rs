// SPDX-License-Identifier: Apache-2.0
//! Waiting in a task: each step is a call of its own, and the wait between steps occupies no thread.

use std::sync::Arc;
use std::time::Duration;

use oxbus_broker::client::{WaitRegistration, WaitStep};
use oxbus_model::Result;
use oxbus_store::wait_queue::NotifyCallback;
use tokio::sync::{Notify, watch};

use crate::accept::until_stopped;

/// Takes steps until one finds something. Returns `None` when the wait is over or the server stops. A step gets the
/// registration of the one before it, and what notifies it.
///
/// Dropping a found value must undo its effect: no caller receives it if this call was cancelled during the step.
pub(crate) async fn wait_until_found<T, S: Future<Output = Result<WaitStep<T>>>>(
    mut stopped: watch::Receiver<bool>,
    take_step: impl Fn(Option<WaitRegistration>, NotifyCallback) -> S,
) -> Result<Option<T>> {
    let notified = Arc::new(Notify::new());
    let mut registration = None;
    loop {
        let callback = Arc::clone(&notified);
        let stepped = take_step(registration, Arc::new(move || callback.notify_one()));
        let waiting = match stepped.await? {
            WaitStep::Found(found) => return Ok(Some(found)),
            WaitStep::Over => return Ok(None),
            WaitStep::Waiting(waiting) => waiting,
        };
        tokio::select! {
            () = notified.notified() => {}
            () = tokio::time::sleep(waiting.sleep_max.unwrap_or(Duration::MAX)) => {}
            () = until_stopped(&mut stopped) => {}
        }
        registration = Some(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use oxbus_broker::client::WaitSource;
    use oxbus_broker::clock::Deadline;
    use oxbus_broker::{Namespace, NamespaceOptions, Receiver, ReceiverOptions};
    use oxbus_model::message::{Body, Fields};
    use oxbus_store::Wait;
    use tokio::sync::watch;

    use crate::pending::receive;

    fn namespace() -> (Namespace, Arc<Receiver>) {
        let namespace = Namespace::open(NamespaceOptions::default()).expect("a namespace in memory");
        let queue = namespace.create_queue_with("q", Vec::new(), &Wait::FOREVER);
        queue.expect("a queue");
        let receiver = namespace.receiver("q", ReceiverOptions::default());
        let receiver = Arc::new(receiver.expect("a receiver"));
        (namespace, receiver)
    }

    fn send(namespace: &Namespace) {
        let fields = Fields {
            body: Body::Data(b"x"),
            ..Fields::default()
        };
        let sender = namespace.sender("q").expect("a sender");
        sender.send(&fields, None, &Wait::FOREVER).expect("sent");
    }

    async fn until_waiters(receiver: &Receiver, count: usize) {
        while receiver.wait_queue().waiters() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn waiting_task_receives_a_message_that_arrives_later() {
        let (namespace, receiver) = namespace();
        let (_stop, stopped) = watch::channel(false);
        let registration = tokio::spawn({
            let receiver = Arc::clone(&receiver);
            async move { receive(&receiver, 1, Deadline::Never, stopped).await }
        });
        until_waiters(&receiver, 1).await;
        send(&namespace);
        let mut pending = registration
            .await
            .expect("no panic")
            .expect("no fault")
            .expect("a message");
        assert_eq!(pending.deliveries().len(), 1);
        pending.mark_sent();
    }

    #[tokio::test]
    async fn deadline_and_server_stop_end_a_wait() {
        let (_namespace, receiver) = namespace();
        let (stop, stopped) = watch::channel(false);
        let soon = Deadline::after(Some(Duration::from_millis(5)));
        let pending = receive(&receiver, 1, soon, stopped.clone()).await;
        assert!(pending.expect("no fault").is_none());
        let registration = tokio::spawn({
            let receiver = Arc::clone(&receiver);
            async move { receive(&receiver, 1, Deadline::Never, stopped).await }
        });
        until_waiters(&receiver, 1).await;
        stop.send_replace(true);
        assert!(registration.await.expect("no panic").expect("no fault").is_none());
        assert_eq!(receiver.wait_queue().waiters(), 0);
    }

    #[tokio::test]
    async fn cancelled_waiter_passes_its_notification_on() {
        let (namespace, receiver) = namespace();
        let (_stop, stopped) = watch::channel(false);
        let start = || {
            let (receiver, stopped) = (Arc::clone(&receiver), stopped.clone());
            tokio::spawn(async move { receive(&receiver, 1, Deadline::Never, stopped).await })
        };
        let leaving = start();
        until_waiters(&receiver, 1).await;
        let staying = start();
        until_waiters(&receiver, 2).await;
        // All tasks share one thread: the first is notified, then aborted before it can receive.
        send(&namespace);
        leaving.abort();
        let mut pending = staying.await.expect("no panic").expect("no fault").expect("a message");
        pending.mark_sent();
        assert_eq!(pending.deliveries()[0].claimed.delivery_count, 0);
        assert!(leaving.await.is_err_and(|error| error.is_cancelled()));
    }
}
