"""The mapping editor in JupyterLab: mistakes as one types, knobs, running, saving."""

from __future__ import annotations


def test_writing_turning_running_saving(open_notebook, assert_accessible):
    notebook = open_notebook(
        "import septran\n"
        "shapes = {'M': 128, 'N': 128, 'K': 256}\n"
        "editor = septran.edit('gemm', 'dsa-sim', shapes=shapes)\neditor"
    )
    page = notebook.page
    view = page.locator(".sep-editor")
    view.wait_for()
    area = view.locator("textarea")
    mistakes = view.locator(".sep-mistakes li")
    status = view.locator(".sep-head [role=status]").first

    # a mistake is at its line as one types, and gone when it is mended
    area.evaluate(
        "e => { const at = e.value.indexOf('CORE') + 4; e.focus(); e.setSelectionRange(at, at); }"
    )
    page.keyboard.type("X")
    mistakes.first.wait_for()
    assert "unknown processor 'COREX'" in mistakes.first.inner_text()
    wrong = view.locator(".sep-wrong")
    assert wrong.locator(".sep-squiggle").all_inner_texts() == ["COREX"]
    assert area.get_attribute("aria-invalid") == "true"
    assert_accessible(page, ".sep-editor")
    page.keyboard.press("Backspace")
    page.wait_for_function("() => !document.querySelector('.sep-mistakes li')")

    # a slider by keyboard: the text, the program and the prediction follow
    program = view.locator("[data-pane=tile_program] .sep-code")
    assert "A_SPM: float32[128, 128]" in program.inner_text()
    slider = view.get_by_role("slider", name="block_K")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "() => document.querySelector('[data-pane=tile_program] .sep-code').innerText"
        ".includes('A_SPM: float32[128, 64]')",
    )
    page.wait_for_function(
        "() => document.querySelector('.sep-editor textarea').value.includes('value: 64}')",
    )
    assert "# 2 x (128 + 64) x K in the scratchpad" in area.input_value()
    assert "us" in view.locator(".sep-figures dd").first.inner_text()

    # what was typed and what a slider wrote are undone, one by one, and done again
    turned = area.input_value()
    area.evaluate("e => { e.focus(); e.setSelectionRange(0, 0); }")
    page.keyboard.press("Enter")
    assert area.input_value() == f"\n{turned}"
    page.keyboard.press("Control+z")
    assert area.input_value() == turned
    page.keyboard.press("Control+z")
    assert "value: 64}" not in area.input_value()
    page.wait_for_function(
        "() => document.querySelector('[data-pane=tile_program] .sep-code').innerText"
        ".includes('A_SPM: float32[128, 128]')",
    )
    page.keyboard.press("Control+y")
    assert area.input_value() == turned
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+Shift+z")
    assert area.input_value() == turned
    page.wait_for_function(
        "() => document.querySelector('[data-pane=tile_program] .sep-code').innerText"
        ".includes('A_SPM: float32[128, 64]')",
    )

    # on request it runs
    view.get_by_role("button", name="run", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('.sep-measured').innerText.includes('cycles')"
    )

    # and is saved with its comments
    view.get_by_role("textbox", name="file to save as").fill("mine.mapping.yaml")
    view.get_by_role("button", name="save as", exact=True).click()
    page.wait_for_function(
        "() => document.querySelector('.sep-editor .sep-head').innerText.includes('saved as')",
    )
    saved = (notebook.lab.notebooks / "mine.mapping.yaml").read_text("utf-8")
    assert saved == area.input_value()
    assert "saved as" in status.inner_text()
    assert notebook.state("editor.yaml == open('mine.mapping.yaml').read()") == "True"


def test_words_that_may_stand_here_and_what_a_key_means(open_notebook, assert_accessible):
    notebook = open_notebook("import septran\nseptran.edit('gemm', 'dsa-sim')")
    page = notebook.page
    view = page.locator(".sep-editor")
    view.wait_for()
    area, words = view.locator("textarea"), view.locator(".sep-words")
    area.evaluate(
        "e => { const at = e.value.indexOf('pipeline: 2') + 4; e.focus();"
        " e.setSelectionRange(at, at + 7); document.execCommand('delete'); }"
    )
    assert words.is_hidden()
    page.keyboard.press("Control+Space")
    words.locator("li").first.wait_for()
    offered = words.locator("li code").all_inner_texts()
    assert "pipeline" in offered
    assert all(word.startswith("pipe") for word in offered)
    shown, frame = words.bounding_box(), area.bounding_box()
    assert frame["y"] <= shown["y"]  # whole, inside of the text
    assert shown["y"] + shown["height"] <= frame["y"] + frame["height"]
    assert_accessible(page, ".sep-editor")
    page.keyboard.press("Escape")
    assert words.is_hidden()
    page.keyboard.press("Control+Space")
    words.locator("li").first.wait_for()
    page.keyboard.press("Enter")
    page.keyboard.type("3")
    assert "pipeline: 3" in area.input_value()
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert "pipeline: 3" not in area.input_value()
    page.keyboard.press("Control+y")
    page.keyboard.press("Control+y")
    assert "pipeline: 3" in area.input_value()

    row = view.locator(".sep-text-line", has_text="proc: HOST").first
    row.evaluate(
        "e => { const t = e.closest('.sep-text').querySelector('textarea');"
        " t.scrollTop = e.offsetTop - 60; }"
    )
    box = row.bounding_box()
    at = row.inner_text().index("proc")
    for step in range(200):  # a hand does not lie still, and a busy page follows late
        page.mouse.move(box["x"] + (at + 2) * 7.22 + step % 2, box["y"] + 9)
        title = area.get_attribute("title") or ""
        if title.startswith("proc: "):
            break
        page.wait_for_timeout(100)
    assert "processor level that runs it" in title
