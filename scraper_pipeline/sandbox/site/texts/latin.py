"""English, French and German."""

from scraper_pipeline.sandbox.site.language import Language, Words

ENGLISH = Language(
    code="en",
    name="English",
    words=Words(
        home="Home",
        archive="Archive",
        search="Search",
        notes="Notes",
        measurements="Measurements",
        questions="Questions and answers",
        day="Day",
        hour="Hour",
        height="Height",
        price="Price",
        next_page="Next page",
        greeting="Welcome, and mind the step!",
    ),
    places=("Saltwick Bay", "Port Isaac", "Whinfell", "St Mary’s", "Craster", "O’Brien’s Quay"),
    titles=("A week in {place}", "What the tide left at {place}", "{place}: notes from the harbour"),
    paragraphs=(
        "The lighthouse of {place} was lit for the first time in {year}. On clear nights its lamp can "
        "be seen from {minutes} kilometres away, and the fishermen still set their course by it, "
        "although every boat has had a receiver for years.",
        "At five in the morning the smell of fresh bread drifts through the lane behind the market. "
        "The baker makes {count} loaves a day, and by ten o’clock they are all sold; whoever comes "
        "later gets rusks and an apology.",
        "The train from the capital takes {minutes} minutes. In winter, when snow lies on the pass, it "
        "may take twice as long. Nobody complains: there is tea, and the windows are large.",
        "The library keeps {count} books, the oldest of them printed by hand. Whoever borrows one "
        "writes the date and a name in a thick register, and the registers have become the more "
        "interesting read.",
        "Yesterday the wind came from the north-west and the thermometer showed {degrees} °C. The "
        "harbour master expects rain by evening, as he has done every day since {year}.",
        "In the garden above the town grow quinces, figs and {count} old apple trees. A stone bench in "
        "the shade is the best place to read, if the wasps agree.",
        "On Saturdays the market opens at {hour}. Farmers bring cheese, honey and vegetables, and a "
        "fiddler plays by the fountain until somebody pays him to stop.",
        "At night the sea is black and quiet. If you sit on the pier for long enough you can count "
        "shooting stars; last August somebody counted {count} and has been famous for it ever since.",
    ),
    pictures=(
        "The pier of {place} at low tide",
        "A cat asleep on a coil of rope",
        "The old lighthouse in fog",
    ),
    goods=("Sea salt, coarse", "Smoked mackerel", "Heather honey", "Woollen socks", "Tide calendar"),
    proverb="Time and tide wait for no man, but the ferry might, if you wave.",
)

FRENCH = Language(
    code="fr",
    name="Français",
    words=Words(
        home="Accueil",
        archive="Archives",
        search="Rechercher",
        notes="Notes",
        measurements="Relevés",
        questions="Questions et réponses",
        day="Jour",
        hour="Heure",
        height="Hauteur",
        price="Prix",
        next_page="Page suivante",
        greeting="Soyez les bienvenus, ça nous fait plaisir !",
    ),
    places=("Saint-Guénolé", "Roscoff", "L’Herbaudière", "Étretat", "Ploumanac’h", "Gruissan"),
    titles=("Une semaine à {place}", "{place}, côté port", "Ce que la marée a laissé à {place}"),
    paragraphs=(
        "Le phare de {place} fut allumé pour la première fois en {year}. Par nuit claire, son feu se "
        "voit à {minutes} kilomètres, et les pêcheurs règlent encore leur cap sur lui, bien que chaque "
        "bateau ait son récepteur.",
        "À cinq heures du matin, l’odeur du pain chaud emplit la ruelle derrière le marché. Le "
        "boulanger façonne {count} pains par jour ; à dix heures, il n’en reste plus un seul, et l’on "
        "se console avec un café.",
        "Le train de la capitale met {minutes} minutes. L’hiver, quand la neige couvre le col, il lui "
        "en faut le double. Personne ne s’en plaint : la vue est belle et le thé bien chaud.",
        "La bibliothèque conserve {count} ouvrages, dont le plus ancien fut imprimé à la main. Chaque "
        "emprunteur inscrit la date et son nom dans un gros registre — et c’est le registre qu’on "
        "vient lire, désormais.",
        "Hier, le vent soufflait du nord-ouest et le thermomètre indiquait {degrees} °C. Le capitaine "
        "du port prévoit de la pluie pour ce soir, comme chaque jour depuis {year}.",
        "Dans le jardin au-dessus de la ville poussent des figuiers, des cognassiers et {count} vieux "
        "pommiers. Un banc de pierre, à l’ombre, attend les lecteurs.",
        "Le samedi, le marché ouvre à {hour}. On y trouve du fromage, du miel, des légumes, et un "
        "accordéoniste près de la fontaine, « jusqu’à ce que la pluie l’arrête ».",
        "La nuit, la mer est noire et calme. Qui reste assez longtemps sur la jetée peut compter les "
        "étoiles filantes ; en août dernier, quelqu’un en a compté {count}, œil nu et cœur léger.",
    ),
    pictures=(
        "La jetée de {place} à marée basse",
        "Un chat endormi sur des cordages",
        "Le vieux phare sous la brume",
    ),
    goods=(
        "Gros sel de mer",
        "Maquereau fumé",
        "Miel de bruyère",
        "Chaussettes de laine",
        "Annuaire des marées",
    ),
    proverb="Petit à petit, l’oiseau fait son nid ; goutte à goutte, la mer fait la grève.",
)

GERMAN = Language(
    code="de",
    name="Deutsch",
    words=Words(
        home="Startseite",
        archive="Archiv",
        search="Suche",
        notes="Anmerkungen",
        measurements="Messwerte",
        questions="Fragen und Antworten",
        day="Tag",
        hour="Uhrzeit",
        height="Höhe",
        price="Preis",
        next_page="Nächste Seite",
        greeting="Grüß Gott und herzlich willkommen!",
    ),
    places=("Norddeich", "Greetsiel", "Westerhever", "Überlingen", "Süderlügum", "Großenbrode"),
    titles=("Eine Woche in {place}", "{place}: Notizen vom Hafen", "Was die Flut in {place} zurückließ"),
    paragraphs=(
        "Der Leuchtturm von {place} brannte zum ersten Mal im Jahr {year}. In klaren Nächten sieht man "
        "sein Feuer {minutes} Kilometer weit, und die Fischer richten ihren Kurs noch immer danach, "
        "obwohl längst jedes Boot einen Empfänger hat.",
        "Um fünf Uhr früh zieht der Duft von frischem Brot durch die Gasse hinter dem Markt. Der "
        "Bäcker backt {count} Laibe am Tag, und um zehn sind alle verkauft; wer später kommt, bekommt "
        "Zwieback und ein Achselzucken.",
        "Der Zug aus der Hauptstadt braucht {minutes} Minuten. Im Winter, wenn Schnee auf dem Pass "
        "liegt, braucht er doppelt so lange. Es beschwert sich niemand: Es gibt Tee, und die Fenster "
        "sind groß.",
        "Die Bibliothek bewahrt {count} Bücher auf, das älteste davon von Hand gedruckt. Wer eines "
        "ausleiht, schreibt Datum und Namen in ein dickes Verzeichnis – und liest sich darin fest.",
        "Gestern wehte der Wind aus Nordwest, und das Thermometer zeigte {degrees} °C. Der "
        "Hafenmeister rechnet bis zum Abend mit Regen, wie an jedem Tag seit {year}.",
        "Im Garten über der Stadt wachsen Quitten, Feigen und {count} alte Apfelbäume. Eine Steinbank "
        "im Schatten ist der beste Platz zum Lesen, sofern die Wespen einverstanden sind.",
        "Samstags öffnet der Markt um {hour}. Die Bauern bringen Käse, Honig und Gemüse, und am "
        "Brunnen spielt ein Geiger, bis ihm jemand Geld gibt, damit er aufhört.",
        "Nachts ist das Meer schwarz und still. Wer lange genug auf der Mole sitzt, kann "
        "Sternschnuppen zählen; im vergangenen August waren es {count}, behauptet jedenfalls der Wirt.",
    ),
    pictures=(
        "Die Mole von {place} bei Ebbe",
        "Eine Katze schläft auf einem Tau",
        "Der alte Leuchtturm im Nebel",
    ),
    goods=("Grobes Meersalz", "Geräucherte Makrele", "Heidehonig", "Wollsocken", "Gezeitenkalender"),
    proverb="Wer nicht will deichen, der muss weichen – aber erst nach dem Tee.",
)
