//! A hold with counted text is taken only if a hold by bytes is not covered.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_billing::quote::{SpendLimit, is_worth_counting, quote_covered};
use tollgate_billing::{CountedText, Demand, Hold, HoldRequest, quote};
use tollgate_catalog::Model;
use tollgate_storage::{Grant, LedgerAccount, LedgerStore, LotTerms};
use tollgate_types::id::TransferId;
use tollgate_types::{
    AccountId, Credits, ErrorCode, KeyId, Prices, Principal, RequestId, Timestamp, Tokenizer, Unit,
};

use crate::ledger::TestLedger;
use crate::model::{demand, model};
use crate::ready;

const ACCOUNT: AccountId = AccountId::from_u128(1);

/// Generates models with a tokenizer.
fn countable() -> impl Strategy<Value = Model> {
    let price = || (1..20_000_000_000_i64).prop_map(Credits::from_nanos);
    (price(), price(), 1..200_000_u64).prop_map(|(input, output, maximum)| {
        let prices = Prices::default()
            .with(Unit::Input, input)
            .with(Unit::Output, output);
        Model {
            tokenizer: Some(Tokenizer::O200kBase),
            ..model(prices, Some(maximum), None)
        }
    })
}

/// Generates a demand and a possible token count of its text.
fn counted() -> impl Strategy<Value = (Demand, CountedText)> {
    (demand(), 0..=1_000_u64, 0..=1_000_u64, 1..=50_u64).prop_map(|(demand, share, density, texts)| {
        let bytes = demand.text_bytes * share / 1_000;
        let fewest = bytes.div_ceil(Tokenizer::MAX_TOKEN_BYTES);
        let tokens = fewest + (bytes - fewest) * density / 1_000;
        (demand, CountedText { texts, bytes, tokens })
    })
}

fn request(number: u128, model: &Model) -> HoldRequest {
    HoldRequest {
        account: ACCOUNT,
        principal: Principal::Key(KeyId::from_u128(1)),
        request: RequestId::from_u128(number),
        hold: None,
        public_model: model.id.clone(),
        endpoint: "/v1/chat/completions",
        max_cost: None,
        accepted_at: Timestamp::from_micros(0),
        ahead: Duration::ZERO,
        lifetime: Duration::from_secs(60),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Counted text is at most its bytes and at least its tokens, with a margin above them where
    /// the bytes allow it.
    #[test]
    fn counted_text_is_bounded_by_its_tokens((demand, text) in counted()) {
        let (by_bytes, by_tokens) = (demand.input_bound(), demand.counted(text).input_bound());
        prop_assert!(by_tokens <= by_bytes);
        prop_assert!(by_tokens >= by_bytes - text.bytes + text.tokens);
        let above = by_tokens - (by_bytes - text.bytes + text.tokens);
        let limit = text.bytes - text.tokens;
        prop_assert_eq!(above, limit.min(text.tokens / 16 + 8 * text.texts));
    }

    #[test]
    fn counting_runs_only_where_it_may_help(
        model in countable(),
        (demand, text) in counted(),
        share in prop_oneof![0..1_000_i64, 990..1_010_i64, 1_000..2_000_i64],
    ) {
        let (full, by_tokens) = (quote(&model, &demand), demand.counted(text));
        let balance = i64::try_from(i128::from(full.amount.nanos()) * i128::from(share) / 1_000).unwrap();
        prop_assume!(balance > 0);
        let available = Credits::from_nanos(balance);
        let limit = SpendLimit { max_cost: None, available };
        let ledger = TestLedger::of(&[ACCOUNT], &[(model.price_version, model.prices)]);
        let grant = Grant {
            id: TransferId::from_u128(1),
            account: ACCOUNT,
            amount: available,
            at: Timestamp::from_micros(0),
            terms: LotTerms::default(),
        };
        ready(ledger.grant(grant)).unwrap();
        let before = ledger.pages();
        // The check before media are fetched passes every request that the hold accepts.
        let checked = ready(Hold::check(&ledger, ACCOUNT, &model, &demand, None, Timestamp::from_micros(0)));
        let asked = Cell::new(false);
        let count = || {
            asked.set(true);
            std::future::ready(Some(by_tokens))
        };
        let taken = ready(Hold::take(&ledger, &request(2, &model), &model, demand, count));
        prop_assert!(!(asked.get() && full.amount <= available), "the hot path counts nothing");
        prop_assert_eq!(asked.get(), full.amount > available && is_worth_counting(&model, &demand, limit));
        // If the text is not counted, counting would have brought no advantage except a slightly
        // larger cap.
        let by_bytes = quote_covered(&model, &demand, limit).ok();
        let by_count = quote_covered(&model, &by_tokens, limit).ok();
        let expected = if asked.get() { by_count } else { by_bytes };
        prop_assert_eq!(expected.is_some(), by_count.is_some());
        match taken {
            Ok(hold) => {
                prop_assert!(checked.is_ok());
                prop_assert_eq!(Some(hold.terms().quote), expected);
                let held = hold.terms().quote.amount.nanos();
                prop_assert_eq!(ledger.pages().balance(ACCOUNT, LedgerAccount::Credits), balance - held);
            }
            Err(error) => {
                prop_assert_eq!(error.code, ErrorCode::InsufficientCredits);
                prop_assert_eq!(expected, None);
                prop_assert_eq!(ledger.pages(), before, "402 and something was written");
            }
        }
    }
}
