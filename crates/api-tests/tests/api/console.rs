//! The console API of the built binary, as a browser uses it.

mod account_data;
mod browser;
mod calls;
mod chats;
mod deliveries;
mod key_rights;
mod keys;
mod live;
mod mail;
mod operators;
mod people;
mod realtime;
mod requests;
mod sign_in;

use tollgate_testkit::gateway::Gateway;

use self::browser::Browser;

/// A password that meets the requirements.
const PASSWORD: &str = "correct horse battery";

/// Creates a sign-in link with the command line and returns its token.
async fn link(gateway: &Gateway, arguments: &[&str]) -> String {
    let command = [&["console", "link"], arguments].concat();
    let link = gateway.command_line().run(&command).await;
    let url = link["url"].as_str().unwrap().to_owned();
    let (page, token) = url.split_once('#').unwrap();
    assert!(page.ends_with("/console/sign-in"), "{url}");
    token.to_owned()
}

/// Returns a browser in which the first owner of the account is signed in, with this address and
/// [`PASSWORD`].
async fn owner(gateway: &Gateway, account: &str, email: &str) -> Browser {
    let mut browser = Browser::new(gateway.client());
    let token = link(gateway, &["--account", account]).await;
    browser.redeem(&token).await;
    browser.set_up(email).await;
    browser.account = account.to_owned();
    browser
}
