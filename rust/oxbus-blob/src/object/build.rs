// SPDX-License-Identifier: Apache-2.0
//! The clients of the clouds.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::HttpConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::emulator::EmulatorContainer;
use super::http;
use super::options::Settings;
use super::place::{Cloud, Place};

/// One object store behind its two interfaces.
pub(super) struct Built {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) listings: Arc<dyn PaginatedListStore>,
    /// Its container, if it is an emulator.
    pub(super) emulator: Option<EmulatorContainer>,
}

/// Makes the client of a place.
pub(super) fn built(place: &Place, settings: &Settings, connector: http::Connector) -> object_store::Result<Built> {
    match place.cloud {
        Cloud::S3 => s3(place, settings, connector),
        Cloud::Azure => azure(place, settings, connector),
        Cloud::Google => google(place, settings, connector),
    }
}

fn both<T: ObjectStore + PaginatedListStore>(store: T, emulator: Option<EmulatorContainer>) -> Built {
    let store = Arc::new(store);
    Built {
        objects: Arc::<T>::clone(&store),
        listings: store,
        emulator,
    }
}

/// A request is sent once. The time of a request is limited here, and that of a connection by the client.
fn client(settings: &Settings) -> (RetryConfig, ClientOptions) {
    let once = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let options = ClientOptions::new()
        .with_timeout(settings.timeout)
        .with_connect_timeout(settings.connect_timeout)
        .with_allow_http(settings.is_plain_http());
    (once, options)
}

fn s3(place: &Place, settings: &Settings, connector: http::Connector) -> object_store::Result<Built> {
    let (once, options) = client(settings);
    let mut builder = AmazonS3Builder::new()
        .with_retry(once)
        .with_client_options(options)
        .with_http_connector(connector)
        .with_bucket_name(&place.container)
        // One request for one blob, which each server of this protocol has.
        .with_config("disable_bulk_delete".parse()?, "true");
    for (name, value) in &settings.values {
        builder = builder.with_config(name.parse()?, value);
    }
    Ok(both(builder.build()?, None))
}

fn azure(place: &Place, settings: &Settings, connector: http::Connector) -> object_store::Result<Built> {
    let (once, options) = client(settings);
    let own_client = settings.uses_emulator().then(|| connector.connect(&options));
    let own_client = own_client.transpose()?;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_retry(once)
        .with_client_options(options)
        .with_http_connector(connector);
    builder = match &place.host {
        Some(host) => builder.with_url(format!("abfss://{}@{host}/", place.container)),
        None => builder.with_container_name(&place.container),
    };
    for (name, value) in &settings.values {
        builder = builder.with_config(name.parse()?, value);
    }
    let store = builder.build()?;
    let emulator = own_client.map(|client| EmulatorContainer::of(place, settings, &store, client));
    Ok(both(store, emulator))
}

fn google(place: &Place, settings: &Settings, connector: http::Connector) -> object_store::Result<Built> {
    let (once, options) = client(settings);
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_retry(once)
        .with_client_options(options)
        .with_http_connector(connector)
        .with_bucket_name(&place.container);
    for (name, value) in &settings.values {
        let name = if name == "endpoint" { "base_url" } else { name };
        builder = builder.with_config(name.parse()?, value);
    }
    Ok(both(builder.build()?, None))
}
