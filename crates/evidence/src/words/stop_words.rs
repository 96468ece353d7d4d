//! Words without meaning for ranking. Words that have a meaning in another of the languages, such
//! as the German articles "die" and "war", are not in the list.

use std::collections::HashSet;
use std::sync::LazyLock;

const ENGLISH: &str = "a an the and or but nor so yet if then than that this these those which who whom \
    whose what when where why how is are was were be been being am do does did doing have has had \
    having can could shall should will would may might must ought i me my mine we us our ours you your \
    yours he him his she her hers it its they them their theirs of at by for with about against between \
    into through during before after above below to from up down in out on off over under again further \
    once here there all any both each few more most other some such no not only own same too very s t d \
    ll m re ve don doesn didn isn aren wasn weren won wouldn shouldn couldn also because as until while \
    just however per via";
const GERMAN: &str = "der das den dem des ein eine einer eines einem einen und oder aber denn sondern \
    wenn weil dass ob als wie wo wer wen wem wessen ist sind waren wird werden wurde wurden sei bin bist \
    habe haben hatte hatten kann können konnte muss müssen soll sollen will wollen darf ich du er sie es \
    wir ihr mich dich sich uns euch mein dein sein unser euer ihre ihren ihrem ihrer seine seinen nicht \
    kein keine keinen nur auch noch schon sehr so zu zum zur von vom vor nach bei beim mit aus auf in im \
    ins an am um über unter durch für gegen ohne bis seit während zwischen welche welcher welches diese \
    dieser dieses diesen jene jener wann warum gibt";
const FRENCH: &str = "le la les un une des du de d l et ou mais donc car ni que qui quoi dont où quand \
    comment pourquoi quel quelle quels quelles est sont était étaient être été suis es sommes êtes ai as \
    avons avez ont avait avaient avoir peut peuvent doit doivent je tu il elle nous vous ils elles me te \
    se lui leur leurs mon ma mes ton ta tes sa ses notre nos votre vos ce cet cette ces ne pas plus très \
    aussi y en à au aux dans par pour sur sous avec sans chez entre vers depuis pendant avant après comme \
    si c j n qu";
const SPANISH: &str = "el los las lo al del una unos unas e u o pero sino porque cuando donde dónde cómo \
    quién quiénes cuál cuáles qué cuándo cuánto por para con contra desde hasta hacia entre sobre tras \
    según durante es son era eran fue fueron ser sido está están estaba estar ha han había haber hay \
    puede pueden debe deben yo tú él ella ello nosotros vosotros ellos ellas mi mis tus su sus nuestro \
    nuestra este esta estos estas ese esa esos esas aquel aquella no ni sí también ya muy más menos como \
    se le les nos os que y";
const OTHERS: &str = "il lo gli i uno della dello dei degli delle nel nella che di da con per tra fra non \
    anche ma o os as um uma uns umas da do dos das na nos nas em não mais het een van en voor met op te \
    niet zijn aan bij ook naar dat";

static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    [ENGLISH, GERMAN, FRENCH, SPANISH, OTHERS]
        .iter()
        .flat_map(|words| words.split_whitespace())
        .collect()
});

/// Whether a word in lower case carries no meaning for ranking.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(word)
}
