//! Payments. A payment provider hosts the checkout pages, stores cards, and reports payments in
//! signed events.

use std::fmt;

use async_trait::async_trait;
use tollgate_types::{AccountId, Money, RenewalState, SubscriptionId, Timestamp, TopUpId};

/// A customer to create at the payment provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayer {
    /// Account of the customer.
    pub account: AccountId,
    /// Display name of the account.
    pub name: String,
}

/// A checkout page for credits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCheckout {
    /// Idempotency key and reference. Events contain it, and a repeated request creates only one
    /// page.
    pub top_up: TopUpId,
    /// The provider's customer id.
    pub payer: String,
    /// Amount that the customer pays.
    pub money: Money,
    /// Line item on the page and on the receipt.
    pub title: String,
    /// URL to which the page redirects after payment.
    pub success_url: String,
    /// URL to which the page redirects after cancellation.
    pub cancel_url: String,
}

/// Billing interval of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingInterval {
    /// Billed every month.
    Month,
    /// Billed every year.
    Year,
}

/// A checkout page for a subscription, which the provider then renews.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPlanCheckout {
    /// Idempotency key and reference. Events of the subscription contain it, and a repeated request
    /// creates only one page.
    pub subscription: SubscriptionId,
    /// The provider's customer id.
    pub payer: String,
    /// Price per interval.
    pub money: Money,
    /// Length of a billing period.
    pub interval: BillingInterval,
    /// Line item on the page and on the invoices.
    pub title: String,
    /// URL to which the page redirects after payment.
    pub success_url: String,
    /// URL to which the page redirects after cancellation.
    pub cancel_url: String,
}

/// A created checkout page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The payment provider's id of the page.
    pub reference: String,
    /// URL of the page.
    pub url: String,
}

/// A charge on a stored card, without the customer present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCharge {
    /// Idempotency key: a repeated request charges the card only once.
    pub top_up: TopUpId,
    /// The provider's customer id.
    pub payer: String,
    /// Amount to charge.
    pub money: Money,
    /// Line item on the receipt.
    pub title: String,
}

/// Result of a charge on a stored card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChargeOutcome {
    /// The charge succeeded.
    Paid(Paid),
    /// The charge is being processed; an event reports its result.
    Processing {
        /// The provider's id of the payment.
        reference: String,
    },
    /// The charge failed permanently.
    Declined {
        /// The provider's error code, such as `card_declined`.
        why: String,
    },
}

/// A payment, as recorded by the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paid {
    /// Id of the top-up, which the gateway sent as the reference of the payment.
    pub top_up: TopUpId,
    /// The provider's id of the payment, the same in all of its events.
    pub reference: String,
    /// Amount without taxes.
    pub money: Money,
}

/// A subscription at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanReference {
    /// Id of the subscription, which the gateway sent as the reference of the checkout; `None` if
    /// the subscription was not created by the gateway.
    pub subscription: Option<SubscriptionId>,
    /// The provider's id of the subscription.
    pub reference: String,
}

/// An invoice for a period of a subscription, as recorded by the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInvoice {
    /// The provider's id of the invoice.
    pub invoice: String,
    /// Subscription that the invoice belongs to.
    pub of: PlanReference,
    /// Amount paid, taxes included.
    pub money: Money,
    /// Start of the period.
    pub start: Timestamp,
    /// End of the period.
    pub end: Timestamp,
}

/// Status of a subscription at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStatus {
    /// Action at the end of the period.
    pub course: RenewalState,
    /// Latest invoice of the subscription, if it is paid.
    pub paid: Option<PlanInvoice>,
}

/// A verified event of the payment provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentEvent {
    /// A payment succeeded.
    Paid(Paid),
    /// A payment failed permanently.
    Failed {
        /// Id of the top-up, which the gateway sent as the reference of the payment.
        top_up: TopUpId,
        /// Error code of the failure.
        why: String,
    },
    /// A refund or a chargeback.
    Returned {
        /// The provider's id of the original payment.
        reference: String,
        /// Total amount returned so far.
        total: Money,
    },
    /// A period of a subscription was paid.
    PlanPaid(PlanInvoice),
    /// Payment of a period failed; the provider may retry.
    PlanNotPaid(PlanInvoice),
    /// A subscription changed; read its state with [`PaymentProvider::plan_status`].
    PlanChanged(PlanReference),
    /// A subscription has ended.
    PlanEnded(PlanReference),
    /// A checkout for a subscription expired or failed.
    PlanNotStarted {
        /// Id of the subscription, which the gateway sent as the reference of the checkout.
        subscription: SubscriptionId,
        /// Error code of the failure.
        why: String,
    },
    /// An event that does not concern credits or plans.
    Other {
        /// The provider's event type.
        kind: String,
    },
}

/// Reason why an event was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventError {
    /// The signature is missing or invalid.
    Signature,
    /// The signature's timestamp is too old or in the future.
    Stale,
    /// The signature is valid, but the body is malformed.
    Malformed(String),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventError::Signature => f.write_str("the signature is missing or invalid"),
            EventError::Stale => f.write_str("the signature's timestamp is too old or in the future"),
            EventError::Malformed(what) => write!(f, "the event cannot be parsed: {what}"),
        }
    }
}

/// Error of a payment provider, for operators. It contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentError {
    /// Whether a retry may help, such as after a timeout.
    pub is_transient: bool,
    /// Description of the failure.
    pub detail: String,
}

impl fmt::Display for PaymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for PaymentError {}

/// Port for payments of credits and plans.
#[async_trait]
pub trait PaymentProvider: Send + Sync {
    /// Returns the name of the provider, such as `stripe`.
    fn name(&self) -> &'static str;

    /// Creates a customer and returns the provider's id of the customer. Idempotent.
    async fn create_payer(&self, payer: &NewPayer) -> Result<String, PaymentError>;

    /// Creates a checkout page for credits.
    async fn open_checkout(&self, checkout: &NewCheckout) -> Result<Checkout, PaymentError>;

    /// Returns a URL of the customer portal, with receipts and cards. The portal links to
    /// `return_url`.
    async fn open_portal(&self, payer: &str, return_url: &str) -> Result<String, PaymentError>;

    /// Charges a stored card.
    async fn charge_saved(&self, charge: &SavedCharge) -> Result<ChargeOutcome, PaymentError>;

    /// Creates a checkout page for a subscription.
    async fn open_plan_checkout(&self, checkout: &NewPlanCheckout) -> Result<Checkout, PaymentError>;

    /// Expires a checkout page by the provider's id, so that the page can no longer be paid.
    /// Returns false if the page was already paid.
    async fn close_checkout(&self, reference: &str) -> Result<bool, PaymentError>;

    /// Reads the status of a subscription.
    async fn plan_status(&self, reference: &str) -> Result<PlanStatus, PaymentError>;

    /// Sets the action at the end of the period; [`RenewalState::Ended`] ends the subscription
    /// immediately. Returns the resulting state: an ended subscription remains ended.
    async fn set_renewal_state(
        &self,
        reference: &str,
        course: RenewalState,
    ) -> Result<RenewalState, PaymentError>;

    /// Whether the payment with this id at the provider belongs to the invoice of a subscription.
    async fn is_invoice_payment(&self, reference: &str) -> Result<bool, PaymentError>;

    /// Verifies the signature of an event and parses it. `signature` is the value of the header
    /// named by [`signature_header`](Self::signature_header).
    fn read_event(
        &self,
        signature: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<PaymentEvent, EventError>;

    /// Returns the name of the HTTP header that contains an event's signature.
    fn signature_header(&self) -> &'static str;

    /// Checks that the provider is reachable and accepts the API key. The `doctor` command uses it.
    async fn probe(&self) -> Result<(), PaymentError>;
}
