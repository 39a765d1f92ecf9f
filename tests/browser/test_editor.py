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
