"""Sentences of unequal lengths about a few subjects, for ranking and for timing."""

TEXTS = (
    "The kernel packs one matrix while the other is multiplied.",
    "Bread needs flour, water, salt and time.",
    "A compiler turns what somebody wrote into what a machine can do, and is judged by how little "
    "of the machine is left idle while it does so.",
    "It rained.",
    "The train to the coast leaves at half past seven from platform four, and those who miss it "
    "wait for two hours, as there is no other before half past nine.",
    "Dough that rises slowly overnight in a cool kitchen tastes better than dough that was hurried "
    "with too much yeast.",
    "How do I bake a loaf with a good crust?",
    "Caches are small and near, memory is large and far away.",
    "Heavy showers are expected in the north this afternoon, with gusts of wind along the coast "
    "and some sunshine later in the south.",
    "Why is my program slow?",
    "Matrix products keep the arithmetic units of a processor busy only if their operands arrive "
    "in time.",
    "The orchestra played the second movement too fast, and yet nobody in the hall minded, because "
    "the oboe sang so well above the strings.",
    "She bought two tickets to the sea.",
    "Which platform does the morning train leave from?",
    "An oven that is hot enough makes the crust.",
    "The violinist tuned her instrument.",
    "Storm warnings were issued for all of the islands.",
    "Registers hold what is summed, so that nothing is written before the sum is complete.",
    "Will it be dry tomorrow?",
    "He forgot the salt.",
    "A string quartet by Haydn has four movements, of which the second is often slow and the third "
    "is often a minuet; the last one is quick, and in his late works full of jokes that an "
    "attentive listener hears at once and that others take for mistakes of the players.",
    "Travellers with bicycles should board at the rear.",
    "Profile first.",
    "Snow fell on the mountains in the night.",
    "The cellist practised scales for an hour.",
    "Vector instructions do sixteen additions at once.",
    "Knead until the dough is smooth, cover it with a cloth, and leave it alone.",
    "The ticket office opens at six, but the machines in the hall sell the same tickets day and "
    "night, and take coins, notes and cards.",
    "Clouds.",
    "Threads that wait for each other do no work.",
    "A concert of chamber music begins at eight in the old town hall.",
    "Fog delayed the ferry, and the connecting train did not wait.",
)
"""Thirty-two of them, of two to some sixty tokens."""
