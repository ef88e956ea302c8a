// SPDX-License-Identifier: Apache-2.0
//! The container of the emulator of Azure. An emulator starts empty, and most machines have no other program to create
//! a container with. In a cloud, nothing is created that costs money or needs rights.

use http::Request;
use http::header::CONTENT_LENGTH;
use object_store::azure::{AzureAuthorizer, MicrosoftAzure};
use object_store::client::{HttpClient, HttpRequestBody};
use tokio::sync::OnceCell;

use super::options::Settings;
use super::place::Place;
use crate::BlobError;

/// The account and the address of an emulator, and the variable with another address.
const ACCOUNT: &str = "devstoreaccount1";
const ADDRESS: &str = "http://127.0.0.1:10000";
const ADDRESS_VARIABLE: &str = "AZURITE_BLOB_STORAGE_URL";

/// A container of an emulator.
#[derive(Debug)]
pub(super) struct EmulatorContainer {
    store: MicrosoftAzure,
    client: HttpClient,
    account: String,
    url: String,
    exists: OnceCell<()>,
}

impl EmulatorContainer {
    /// The container of a place in an emulator.
    pub(super) fn of(place: &Place, settings: &Settings, store: &MicrosoftAzure, client: HttpClient) -> Self {
        let address = std::env::var(ADDRESS_VARIABLE).unwrap_or_else(|_| ADDRESS.to_owned());
        let address = address.trim_end_matches('/');
        let account = settings.values.get("account_name").map_or(ACCOUNT, String::as_str);
        Self {
            store: store.clone(),
            client,
            account: account.to_owned(),
            url: format!("{address}/{account}/{}?restype=container", place.container),
            exists: OnceCell::new(),
        }
    }

    /// Ensures that the container exists: calls `create` until it was made, or found.
    pub(super) async fn ensure(&self, create: impl Future<Output = Result<(), BlobError>>) -> Result<(), BlobError> {
        let created = self.exists.get_or_try_init(|| async {
            match create.await {
                Err(BlobError::Exists) => Ok(()),
                answer => answer,
            }
        });
        created.await.copied()
    }

    /// Creates the container.
    pub(super) async fn create(&self) -> object_store::Result<()> {
        let credential = self.store.credentials().get_credential().await?;
        let request = Request::put(&self.url)
            .header(CONTENT_LENGTH, 0)
            .body(HttpRequestBody::empty());
        let mut request = request.map_err(of_emulator)?;
        AzureAuthorizer::new(&credential, &self.account).try_authorize(&mut request)?;
        self.client.execute(request).await.map_err(of_emulator)?;
        Ok(())
    }
}

fn of_emulator(error: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic {
        store: "emulator",
        source: Box::new(error),
    }
}
