// SPDX-License-Identifier: Apache-2.0
//! Untrusted HTTP requests on seeded inputs: requests of real clients, damaged, cut and recombined.

#[path = "support/untrusted_requests.rs"]
pub mod support;

use proptest::collection::vec;
use proptest::prelude::*;

const SEEDS: [&str; 11] = [
    "GET /health HTTP/1.1\r\n\r\n",
    "GET /$Resources/queues?$skip=0&$top=100&api-version=2021-05 HTTP/1.1\r\n\r\n",
    "PUT /orders?api-version=2021-05 HTTP/1.1\r\ncontent-length: 316\r\n\r\n<?xml version=\"1.0\"?><entry \
     xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
     xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"><LockDuration>PT1M</LockDuration>\
     <EnablePartitioning>true</EnablePartitioning></QueueDescription></content></entry>    ",
    "PUT /news/subscriptions/all/rules/red HTTP/1.1\r\ncontent-length: 190\r\n\r\n<entry><content><RuleDescription>\
     <Filter i:type=\"SqlFilter\" xmlns:i=\"i\"><SqlExpression>a = 1</SqlExpression></Filter><Name>red</Name>\
     </RuleDescription></content></entry>                                      ",
    "POST /orders/messages HTTP/1.1\r\nBrokerProperties: {\"MessageId\":\"m\",\"TimeToLive\":60}\r\nregion: \"north\"\r\n\
     content-length: 4\r\n\r\nbody",
    "POST /orders/messages HTTP/1.1\r\ncontent-type: application/vnd.microsoft.servicebus.json\r\ncontent-length: 17\r\n\
     \r\n[{\"Body\":\"first\"}]",
    "DELETE /orders/messages/head?timeout=0 HTTP/1.1\r\n\r\n",
    "PUT /orders/messages/1/00000000-0000-0000-0000-000000000000 HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
    "POST /orders/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "GET /$bulk/v1/peek?entity=orders&partition=0&from=0&max_bytes=1024&include_body=true HTTP/1.1\r\n\r\n",
    "POST /$bulk/v1/settle HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 57\r\n\r\n\
     {\"entity\":\"orders\",\"lock_tokens\":\"\",\"outcome\":\"complete\"}",
];

/// Prepends the first byte, which selects whether the request has a token and whether health is checked afterwards.
fn input(choice: u8, bytes: &[u8]) -> Vec<u8> {
    [&[choice][..], bytes].concat()
}

#[test]
fn valid_requests_are_answered() {
    for seed in SEEDS {
        support::http(&input(0, seed.as_bytes()));
        support::http(&input(1, seed.as_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_requests_are_answered(
        seed in 0..SEEDS.len(), damage in vec((any::<usize>(), any::<u8>()), 1..6), cut in any::<usize>()
    ) {
        let mut bytes = SEEDS[seed].as_bytes().to_vec();
        let length = bytes.len();
        for (place, byte) in damage {
            bytes[place % length] = byte;
        }
        if cut % 2 == 0 {
            bytes.truncate(cut % length);
        }
        support::http(&input(0, &bytes));
    }

    #[test]
    fn noise_is_answered(bytes in vec(any::<u8>(), 0..200), choice: u8) {
        support::http(&input(choice, &bytes));
    }
}
