"""The page in a real browser: what a person would do with it."""

import re
import time

import httpx
import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def tenant(service, request):
    """A tenant of this test's own: its page and what the service says about it."""
    name = re.sub(r"\W", "-", request.node.name)[:60]

    class Tenant:
        page = f"{service.url}/?tenant={name}"
        api = f"{service.url}/v1/collections/tangram/tenants/{name}"

        def __getitem__(self, field):
            return httpx.get(self.api, timeout=60).json()[field]

    return Tenant()


def wait_for_answers(page):
    page.wait_for_selector("#answers .source .hit")
    page.wait_for_selector("#answers .adapted .hit")


def wait_until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def answers(page, side):
    return page.locator(f"#answers .{side} .hit").all_inner_texts()


def shown(page):
    return page.get_attribute("#preview img", "src")


def slide_to(page, severity):
    before = shown(page)
    page.fill("#severity", str(severity))
    page.wait_for_function(
        "before => document.querySelector('#preview img').src !== before", arg=before
    )


def send_many(page, count="64"):
    page.select_option("#many-count", count)
    page.click("#many-send")
    done = page.get_by_text(f"{count} of {count} sent")
    done.wait_for(timeout=60_000)
    page.wait_for_selector("#many-send:enabled")


def test_a_sample_is_answered_by_both_models_with_the_right_answer_marked(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    assert len(answers(page, "source")) == len(answers(page, "adapted")) == 5
    assert page.locator("#answers .source .right").count() == 1
    assert page.locator("#samples input").count() == 8
    before = page.inner_text("#answers .source")
    page.locator("#samples .thumb").nth(3).click()
    page.wait_for_function(
        "before => document.querySelector('#answers .source').innerText !== before", arg=before
    )
    assert page.locator("#answers .source .right").count() == 1


def test_ones_own_image_is_answered(opened, tenant, tmp_path):
    from PIL import Image

    image = tmp_path / "mine.png"
    Image.new("RGB", (48, 48), (200, 30, 30)).save(image)
    page = opened(tenant.page)
    wait_for_answers(page)
    before = shown(page)
    page.set_input_files("#own-file", image)
    page.wait_for_function(
        "before => document.querySelector('#preview img').src !== before", arg=before
    )
    page.wait_for_function("() => !document.querySelector('#answers .right')")
    wait_for_answers(page)
    assert page.locator("#answers .right").count() == 0
    assert page.locator("#samples input:checked").count() == 0


def test_a_file_that_is_no_image_is_refused_in_a_sentence(opened, tenant, tmp_path):
    path = tmp_path / "mine.png"
    path.write_bytes(b"not an image")
    page = opened(tenant.page)
    wait_for_answers(page)
    page.set_input_files("#own-file", path)
    page.wait_for_selector("#message.bad")
    assert "image" in page.inner_text("#message")


def test_the_slider_corrupts_and_trying_teaches_nothing(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    clean = answers(page, "source")
    page.select_option("#corruption", "gaussian_noise")
    slide_to(page, 5)
    assert page.inner_text("#severity-shown") == "5"
    wait_until(lambda: answers(page, "source") != clean)
    assert httpx.get(tenant.api).status_code == 404  # nobody has asked anything yet


def test_hits_have_shares_that_a_person_can_read(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    shares = page.locator("#answers .adapted .score").all_inner_texts()
    assert 98 <= sum(int(share.removesuffix(" %")) for share in shares) <= 102
    assert page.get_attribute("#answers .adapted .score", "title").startswith("score ")


def test_all_tenants_are_shown_and_a_click_looks_at_one(opened, service, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    send_many(page)
    other = f"{tenant.api.split('/')[-1]}-other"
    search = tenant.api.split("/tenants")[0]
    samples = httpx.get(f"{search}/samples?n=1", timeout=60).json()["samples"]
    httpx.post(f"{search}/search", json={"tenant": other, "query": samples[0]["query"]}, timeout=60)
    page.reload()
    row = page.locator(f"#overview-rows tr:has(button[data-tenant='{other}'])")
    assert row.inner_text().split("\t")[:3] == [other, "live", "1"]
    current = page.locator("#overview-rows tr[aria-current]")
    assert current.inner_text().split("\t")[2] == "64"
    row.locator("button").click()
    page.wait_for_function("name => location.search.includes(`tenant=${name}`)", arg=other)
    page.wait_for_selector(f"#overview-rows tr[aria-current] button[data-tenant='{other}']")
    page.get_by_text("the tenant has not learned from a group of queries yet").wait_for()


def test_many_corrupted_queries_are_learnt_and_drawn(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    page.select_option("#corruption", "gaussian_noise")
    slide_to(page, 3)
    send_many(page, "256")
    told = page.inner_text("#many-chart figcaption")
    source, adapted = map(int, re.findall(r"(\d+) %", told))
    assert adapted > source, told
    page.wait_for_selector("#curves polyline")
    titles = page.locator("#curves h3").all_inner_texts()
    assert titles == [
        *("Shift score", "Agreement", "Entropy", "Gap", "Spread"),
        *("Updates and drops", "Learning delay", "Guard"),
    ]
    assert page.locator("#curves svg").count() == len(titles)
    assert tenant["updates"] > 4
    page.wait_for_selector("#latest .latest img")
    page.click("#batches summary")
    assert page.locator("#batches tbody tr").count() > 4


def test_a_snapshot_is_taken_and_rolled_back_to(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    page.select_option("#corruption", "gaussian_noise")
    slide_to(page, 4)
    send_many(page)
    page.fill("#snapshot-name", "before")
    page.click("#snapshot-form button")
    page.wait_for_selector("#snapshots [data-snapshot=before]")
    kept = tenant["report"]["updates_in_force"]
    page.select_option("#corruption", "shot_noise")  # the same queries again would teach nothing
    send_many(page)
    wait_until(lambda: tenant["report"]["updates_in_force"] > kept)
    page.click("#snapshots [data-snapshot=before]")
    page.click("#confirm button[value=no]")
    assert tenant["report"]["updates_in_force"] > kept
    page.click("#snapshots [data-snapshot=before]")
    assert "before" in page.inner_text("#confirm-text")
    page.click("#confirm-yes")
    page.wait_for_function(
        "() => document.getElementById('message').textContent.includes('Rolled back')"
    )
    assert tenant["report"]["updates_in_force"] == kept


def test_a_reset_is_confirmed_and_gives_up_what_was_learnt(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    page.select_option("#corruption", "gaussian_noise")
    slide_to(page, 4)
    send_many(page)
    page.click("#reset")
    page.click("#confirm-yes")
    said = "document.getElementById('message').textContent"
    page.wait_for_function(f"() => {said}.includes('uses the source model again')")
    assert tenant["report"]["updates_in_force"] == 0


def test_a_mode_is_switched_only_after_confirmation(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    page.wait_for_selector("#modes [data-mode=live][aria-pressed=true]")
    page.click("#modes [data-mode=frozen]")
    assert "nothing is learned" in page.inner_text("#confirm-text")
    page.keyboard.press("Escape")
    assert httpx.get(tenant.api).status_code == 404  # it is not there yet, so nothing was switched
    page.click("#modes [data-mode=frozen]")
    page.click("#confirm-yes")
    page.wait_for_selector("#modes [data-mode=frozen][aria-pressed=true]")
    assert tenant["mode"] == "frozen"


def test_clicks_say_which_answers_are_better(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    assert page.inner_text("#clicks") == ""
    samples = httpx.get(tenant.api.split("/tenants")[0] + "/samples?n=1", timeout=60).json()[
        "samples"
    ]
    asked = {"tenant": tenant.api.split("/")[-1], "query": samples[0]["query"], "adapt": False}
    found = httpx.post(tenant.api.split("/tenants")[0] + "/search", json=asked, timeout=60).json()
    clicks = [{"query": 0, "ids": samples[0]["right"]}]
    told = {"request_id": found["request_id"], "clicks": clicks}
    httpx.post(f"{tenant.api}/feedback", json=told, timeout=60).raise_for_status()
    page.get_by_text("Clicks so far: 1").wait_for()
    assert "too few to tell" in page.inner_text("#clicks")


def test_another_tenant_is_another_view_and_the_address_remembers_it(opened, service):
    page = opened(f"{service.url}/?tenant=first")
    wait_for_answers(page)
    page.fill("#tenant", "second")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search.includes('tenant=second')")
    page.reload()
    wait_for_answers(page)
    assert page.input_value("#tenant") == "second"


@pytest.mark.parametrize(("width", "height"), [(360, 640), (390, 844), (820, 1180)])
def test_nothing_is_wider_than_a_small_screen(opened, tenant, width, height):
    page = opened(tenant.page, width, height)
    wait_for_answers(page)
    send_many(page)
    page.wait_for_selector("#curves svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        """() => [...document.querySelectorAll("button, select")]
            .filter((one) => one.offsetParent && one.offsetHeight < 36).map((one) => one.id)"""
    )
    assert small == []


CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor, [, , , alpha] = numbers(colour);
      if (alpha === undefined || alpha > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  const texts = "p, h1, h2, h3, label, button, dt, dd, span, figcaption, summary, legend";
  for (const one of document.querySelectorAll(texts)) {
    if (!one.offsetParent || !one.innerText || one.disabled || one.closest("[inert]")) continue;
    const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) faint.push(`${one.tagName} ${one.innerText}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_both_schemes(opened, tenant, scheme):
    page = opened(tenant.page, scheme=scheme)
    wait_for_answers(page)
    page.click("#many-send")
    page.wait_for_selector("#curves svg")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")
    assert page.evaluate(CONTRAST) == []


def focused(page):
    return page.evaluate("document.activeElement.id || document.activeElement.dataset.mode || ''")


def tab_to(page, wanted):
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page) == wanted:
            return
    raise AssertionError(f"Tab never comes to {wanted}")


def test_all_of_it_works_by_keyboard(opened, tenant):
    page = opened(tenant.page)
    wait_for_answers(page)
    page.keyboard.press("Tab")
    assert "Skip" in page.evaluate("document.activeElement.textContent")
    tab_to(page, "many-send")  # a tenant begins with what teaches it
    page.keyboard.press("Enter")
    page.wait_for_selector("#many-chart svg")
    page.wait_for_selector("#many-send:enabled")
    tab_to(page, "frozen")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px"
    page.keyboard.press("Enter")
    assert focused(page) == "confirm-yes"
    page.keyboard.press("Enter")
    page.wait_for_selector("#modes [data-mode=frozen][aria-pressed=true]")
    tab_to(page, "severity")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#severity-shown').textContent === '1'")
    tab_to(page, "many-send")
    page.keyboard.press("Enter")
    page.wait_for_selector("#many-chart svg")
    assert tenant["mode"] == "frozen"
