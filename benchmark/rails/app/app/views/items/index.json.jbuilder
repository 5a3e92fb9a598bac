json.array! @items, partial: "items/item", as: :item
