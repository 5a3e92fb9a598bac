class Motto
  TEXT = "first"
end
