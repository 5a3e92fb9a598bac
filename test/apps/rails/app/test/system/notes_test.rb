require "application_system_test_case"

class NotesTest < ApplicationSystemTestCase
  test "the server is ours and sees what the test has written" do
    Note.create!(title: "seen in a system test")
    visit "/notes"
    assert_includes page.html, "seen in a system test"
    assert Thread.list.any? { |thread| thread.name == "neverblock server" }
  end

  test "what another test has written is not there" do
    visit "/notes"
    refute_includes page.html, "seen in a system test"
    threads = Array.new(8) { Thread.new { Net::HTTP.get(URI("#{page.server_url}/notes.json")) } }
    Note.create!(title: "written meanwhile")
    threads.each { |thread| assert_match(/\A\[/, thread.value) }
  end
end
